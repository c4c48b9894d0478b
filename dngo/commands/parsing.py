"""Reads a command line. A mistake becomes one line."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from dngo.elsewhere import COMMANDS, OPTIONS
from dngo.storage.files import at_home, variable_in, without_variable

# Arguments that are paths, in all commands.
PATHS = {"config", "results", "study", "studies", "old", "file", "output", "html"}
EXAMPLE = "For example: "  # at the end of the help of a command
# Messages of argparse, and our messages instead. Each begins with the option or argument.
SAID = {
    r"argument (?P<name>.+?): invalid choice: (?P<given>.*?) \(choose from (?P<known>.*)\)": (
        "{name} must be one of {known}, not {given}"
    ),
    r"argument (?P<name>.+?): invalid int value: (?P<given>.*)": (
        "{name} must be an integer, not {given}"
    ),
    r"argument (?P<name>.+?): invalid float value: (?P<given>.*)": (
        "{name} must be a number, not {given}"
    ),
    r"argument (?P<name>.+?): expected (?:one|at least one) argument": "{name} needs a value",
    r"argument (?P<name>.+?): not allowed with argument (?P<other>.*)": (
        "give either {other} or {name}, not both"
    ),
    r"the following arguments are required: (?P<name>.*)": "{name} must be given",
    r"one of the arguments (?P<name>.*) is required": "give one of {name}",
    r"ambiguous option: (?P<name>.+?) could match (?P<known>.*)": "{name} may mean {known}",
    r"argument (?P<name>.+?): (?P<rest>.*)": "{name}: {rest}",
}


class Parser(argparse.ArgumentParser):
    """A parser whose errors have one line: what is wrong, and what would be right."""

    def parse(self, words: Sequence[str], known: argparse.Namespace) -> argparse.Namespace:
        """The arguments. A mistake ends the process with status 2 and one line."""
        found, rest = self.parse_known_args(words, known)
        for name in PATHS & vars(found).keys():  # bash leaves the ~ of --output=~/o.csv as it is
            given = getattr(found, name)
            home = [at_home(str(each)) for each in given] if isinstance(given, list) else given
            setattr(found, name, at_home(home) if isinstance(home, str) else home)
            for path in [home] if isinstance(home, str) else home or ():
                if name != "results" and (variable := variable_in(path)):
                    self.commands[found.command].error(
                        f"{path}: {variable} is not replaced by a value; write "
                        f"{without_variable(variable)}"
                    )
        if rest:
            command = self.commands.get(found.command or "", self)
            command.error(command.unknown(rest[0]))
        return found

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Like argparse, but if an argument is missing, an option with several values gives it its
        last word.

        Examples are `--ignore a file.csv` and `--with k=1 OLD`. Otherwise the option would take the
        file as well.
        """
        return super().parse_known_args(self._left_to_arguments(list(args or ())), namespace)

    def _left_to_arguments(self, words: list[str]) -> list[str]:
        named = {o: a for a in self._actions for o in a.option_strings}
        if "--" in words or not any(a.option_strings == [] for a in self._actions):
            return words
        # The option that takes the next words, the start of these words, and the fewest words that
        # it needs.
        taker, first, last = None, 0, -1
        for i, word in enumerate(words):
            if word.startswith("-") and len(word) > 1:
                taker = None if "=" in word else named.get(word)
                first = i + 1
            elif isinstance(taker, argparse._ExtendAction):
                if i > first and not (taker.metavar == "NAME=VALUE" and "=" in word):
                    last = i
            elif taker is None or taker.nargs == 0:
                return words  # no argument is missing
            elif taker.nargs is None:
                taker = None
        return words if last < 0 else [words[last], *words[:last], *words[last + 1 :]]

    def unknown(self, word: str) -> str:
        """The message for a word that is left over."""
        if not word.startswith("-"):
            return f"{word!r} is one word too many"
        option = word.partition("=")[0]
        if option in OPTIONS:
            return f"there is no option {option}; {OPTIONS[option]}"
        named = [option for action in self._actions for option in action.option_strings]
        options = [option[2:] for option in named if option.startswith("--")]
        close = difflib.get_close_matches(
            word.partition("=")[0].strip("-"), options, n=1, cutoff=0.7
        )
        return f"there is no option {word}{f'; did you mean --{close[0]}?' if close else ''}"

    @property
    def commands(self) -> dict[str, Parser]:
        """The parsers of the commands, by name."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def error(self, message: str) -> NoReturn:
        """End the process with status 2 and one line."""
        said = self._in_words(message)
        more = "" if said.endswith("?") else f"; see {self.prog} --help"
        example = (self.epilog or "").removeprefix(EXAMPLE)
        if example != self.epilog and said.endswith(("one word too many", "must be given")):
            more = f", for example: {example}" if example else more
        self.exit(2, f"{self.prog}: {said}{more}\n")

    def _in_words(self, message: str) -> str:
        for form, words in SAID.items():
            if found := re.fullmatch(form, message):
                parts = found.groupdict()
                known = re.findall(r"[\w.-]+", parts.get("known") or "")
                given = (parts.get("given") or "").strip("'\"")
                if parts.get("name") == "COMMAND" and given == "help":
                    return "there is no command 'help'"
                if parts.get("name") == "COMMAND":
                    like = [COMMANDS[given]] if given in COMMANDS else known
                    return (
                        f"there is no command {given!r}{_nearest(COMMANDS.get(given, given), like)}"
                    )
                said = words.format(**{**parts, "known": ", ".join(known)})
                return said + (_nearest(given, known) if given and known else "")
        return message


def _nearest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
