"""The words of a command line, and one line for what is wrong with them."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import NoReturn

from dngo.storage.files import at_home

# Arguments that are paths, in all commands.
PATHS = {"config", "results", "study", "studies", "old", "file", "output", "html"}
# What argparse says, and what is said instead; each begins with the option or argument it is about.
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
    """A parser whose errors are one line: what is wrong, and what would be right."""

    def parse(self, words: Sequence[str], known: argparse.Namespace) -> argparse.Namespace:
        """The arguments; ends the process with status 2 and one line where they mean nothing."""
        found, rest = self.parse_known_args(words, known)
        for name in PATHS & vars(found).keys():  # bash leaves the ~ of --output=~/o.csv as it is
            given = getattr(found, name)
            home = [at_home(str(each)) for each in given] if isinstance(given, list) else given
            setattr(found, name, at_home(home) if isinstance(home, str) else home)
        if rest:
            command = self.commands.get(found.command or "", self)
            command.error(command.unknown(rest[0]))
        return found

    def unknown(self, word: str) -> str:
        """What is said of a word that is left over."""
        if not word.startswith("-"):
            return f"{word!r} is one word too many"
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
                    return f"there is no command {given!r}{_nearest(given, known)}"
                said = words.format(**{**parts, "known": ", ".join(known)})
                return said + (_nearest(given, known) if given and known else "")
        return message


def _nearest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
