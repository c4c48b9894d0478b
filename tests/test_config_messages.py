"""A user's mistake is one line: what is wrong, where, and what would be right. Nothing else is said."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pydantic_core._pydantic_core as core
import pytest
from pydantic_core import InitErrorDetails, PydanticKnownError, ValidationError

from dngo.cli import main
from dngo.config import Config, validate
from dngo.config.messages import explain
from dngo.errors import UserError
from dngo.plugins import Registry

HEAD = "study: a\nobjective: {command: 'true'}\n"
SPACE = "space: {x: {type: boolean}}\n"
WHOLE = HEAD + SPACE  # three lines: what is wrong stands in the fourth
# Words of libraries and of Python that no user need know.
JARGON = (
    r"\bvalid\b|pydantic|Traceback|validation|dictionary|\bdict\b|\bstr\b|\bNone\b|\bTrue\b|\bFalse\b|"
    r"[Ii]nput should|parse string|extract fields|discriminator|constructor|tag:|invalid choice"
)


def objective(keys: str) -> str:
    return f"study: a\nobjective: {{{keys}}}\n{SPACE}"


def parameter(keys: str) -> str:
    return f"{HEAD}space: {{x: {{{keys}}}}}\n"


WORD = (
    "a name has letters, digits and _, does not start with a digit, and has at most 64 characters"
)
STUDY = "a name has letters, digits, '_', '.' and '-', at most 100 characters"
TYPES = f"type must be one of {', '.join(Registry('dngo.parameters').names())}, not"
KINDS = f"kind must be one of {', '.join(Registry('dngo.surrogates').names())}, not"
FORMATS = ", ".join(Registry("dngo.exports").names())
SIGN = "is a sign of its own in YAML; write it in quotes if it is a word"
MAPPING = "must be a mapping of keys to values"
EMPTY = "is empty, but must be"
NOT_YAML = "not valid YAML:"

# Keys of the objective, which stands in the second line, and what is said of them.
OBJECTIVES = {
    "command: {a: b}": "objective.command: must be text or a list, not a mapping of keys to values",
    "command: [a, 3]": "objective.command.1: must be text, not 3; in quotes it is text: '3'",
    "command: ''": "objective: command is empty",
    "cmd: run": "objective.cmd: unknown key; did you mean 'command'?",
    "callable: f.py": "objective.callable: must be module:function, not 'f.py'",
    "command: run, direction: min": "objective.direction: must be one of minimize, maximize, not 'min'; did you mean 'minimize'?",
    "command: run, time_limit: 1h": "objective.time_limit: must be a number, not '1h'; write seconds, without a unit",
    "command: run, time_limit: 0": "objective.time_limit: must be greater than 0, not 0",
    "command: run, strict: maybe": "objective.strict: must be true or false, not 'maybe'",
    "command: run, timeout: 3": "objective.timeout: unknown key; did you mean 'time_limit'?",
    "command: 'run \"x'": "objective.command: a quote is opened and not closed; give a list of words",
    "callable: 'f.py:g'": "objective: callable must be module:function, without .py; did you mean 'f:g'?",
    "command: 'true', working_directory: /nowhere": "objective.working_directory: there is no folder /nowhere",
}
# Keys of a parameter, in the third line.
PARAMETERS = {
    "type: categorical, choices: [a, =]": f"space.x.choices.1: = {SIGN}",
    "type: categorical, choices: [a, null]": "space.x.choices.1: is empty; null and ~ are words in quotes",
    "type: float, low: 0,5, high: 1": "space.x.5: unknown key; is this a decimal comma? Numbers have a point, as 0.5",
    "low: 0, high: 1": "space.x: needs a type: float, int, categorical, ordinal, boolean or fixed",
    "type: float, low: .nan, high: 1": "space.x.low: must be a finite number, not nan",
    "type: float, low: 0": "space.x: needs low and high, or a list of values",
    "type: int, low: 0, high: 1.5": "space.x.high: must be an integer, not 1.5",
    "type: int, low: 0, high: 1e30": "space.x.high: must be an integer of fewer digits, not 1e+30",
    "type: int, values: []": "space.x.values: is empty; give it a value",
    "type: categorical, choices: [a]": "space.x.choices: needs at least 2 values; for one write {type: fixed, value: a}",
    "type: categorical": "space.x.choices: is missing and must be given",
    "type: boolean, low: 0": "space.x.low: does nothing where type is boolean; it is for type float or int",
    "type: float, low: 0, high: 1, prior: 0.5": f"space.x.prior: {MAPPING}, as {{value: 0.5}}, not 0.5",
    "type: ordinal, values: [2, true, 'TRUE']": (
        "space.x: true and 'TRUE' look alike in tables, files and commands; list one of them, or give "
        "them other names"
    ),
    "type: float, low: 0, high: 1, prior: {value: 2}": "space.x.prior.value: x never has the value 2; it ranges from 0.0 to 1.0",
    "type: fixed, value: 2, prior: {value: 2}": "space.x.prior: a fixed parameter can have no other value; remove it",
}
# A fourth line, and what is said of it.
KEYS = {
    "direction: maximize": "direction: belongs to another section: objective.direction",
    "max_evals: 3": "max_evals: unknown key; did you mean 'iterations'?",
    "pruner: 3": "pruner: unknown key; did you mean 'early_stopping'?",
    "partition: 3": "partition: unknown key; did you mean 'resources'?",
    "resources: {evaluate: {mem_mb: 4 GB}}": "resources.evaluate.mem_mb: must be an integer, of megabytes, not '4 GB'",
    "<<: 3": f"configuration: << {SIGN}",
    "\titerations: 3": f"{NOT_YAML} begin lines with spaces, never with a tab",
    "results: a: b": f"{NOT_YAML} a text with a colon and a space in it must stand in quotes",
    "results: @a": f"{NOT_YAML} a word that begins with @ must stand in quotes",
    "results: *a": f"{NOT_YAML} undefined alias 'a': a word that begins with * must stand in quotes",
    "  iterations: 3": f"{NOT_YAML} this line is not indented like the lines around it",
    "constraints: ['ok <= 3']": (
        'constraints.ok <= 3: a constraint with a threshold is written {ok: "<= 3"}; what parameters must keep '
        "stands in space_constraints"
    ),
    "constraints: ok <= 3": 'constraints: must be a list of names, or a mapping of names to bounds; write {ok: "<= 3"}',
    "constraints: ok": "constraints: must be a list of names, or a mapping of names to bounds; write [ok]",
    "constraints: {ok: 3}": "constraints.ok: must be true (a flag) or a bound such as '<= 350', not 3",
    "constraints: {ok: '< 3'}": "constraints.ok: a bound must be written like '<= 350' or '>= 0.2', but is '< 3'",
    "constraints: [3]": "constraints: each must be a name, or a name with a bound, not 3",
    "constraints: [a b]": f"constraints.a b: {WORD}",
    "space_constraints: x": "space_constraints: must be a list, not 'x'; a list of one is [x]",
    "space_constraints: ['x or 1_0 < 2']": "space_constraints.0: 'x or 1_0 < 2': 1_0 is not a number; write 10",
    "design: 20": f"design: {MAPPING}, as {{size: 20}}, not 20",
    "early_stopping: yes": "early_stopping: must be true, false or a rule; 'yes' is text in YAML: write true",
    "iterations: true": "iterations: must be a number, not true",
    "points_at_once: all": "points_at_once: must be an integer or auto, not 'all'",
    "stop: {probability: 1}": "stop.probability: must be less than 1, not 1",
    "seed: 99999999999999999999": "seed: must be less than 9223372036854775808, not 99999999999999999999",
    "surrogate: {kind: [gp]}": f"surrogate: {KINDS} ['gp']; did you mean 'gp'?",
    "surrogate: 3": "surrogate: must be a kind, or a mapping of keys to values, not 3",
    "surrogate: {networks: {layers: 99}}": "surrogate.networks.layers: must be 8 or less, not 99",
    "acquisition: {per: a b}": (
        "acquisition.per: must be duration, or the name of a number that the objective reports in its "
        "metadata (letters, digits and _), not 'a b'"
    ),
    "resources: {evaluate: {mem_mb: [1]}}": "resources.evaluate.mem_mb: must be an integer, a number or text, not [1]",
    "results: ''": "results: is empty; give it a value",
    "transfer: [a.h5]": "transfer: a.h5: there is no such archive",
    "results: $HOME/a": "results: $HOME/a: $HOME is not replaced by a value; write ~",
    "resources: {evaluate: {threads: many}}": "resources.evaluate.threads: must be an integer, 1 or greater, not 'many'",
}
# A text of which the last line is wrong, and what is said of it.
TEXTS = {
    "study: 3": "study: must be text, not 3; in quotes it is text: '3'",
    "study: 2024-01-31": "study: 2024-01-31 is a date in YAML; write it in quotes if it is a word",
    "study: =": f"study: = {SIGN}",
    "study: ~": f"study: {EMPTY} text; null and ~ are words in quotes",
    "study: a b": f"study: {STUDY}",
    f"{HEAD}space: []": f"space: {MAPPING}, as {{x: {{type: float, low: 0, high: 1}}}}, not []",
    f"{HEAD}space:": f"space: {EMPTY} a mapping of keys to values",
    f"{HEAD}space: {{1: {{type: boolean}}}}": f"space.1: {WORD}",
    f"{HEAD}space: {{x: [0, 1]}}": "space.x: must be a mapping with a type, as {type: float, low: 0, high: 1}, not [0, 1]",
    HEAD + "space: {x: {type: boolean, active_if: {y: 1}}, y: {type: boolean}}": (
        "space.x.active_if.y: y never has the value 1; it is true or false"
    ),
    HEAD
    + "space: {x: {type: boolean}, f: {type: fixed, value: 4}}\nspace_constraints: ['x and f == 5']": (
        "space_constraints.0: 'x and f == 5' never holds with the fixed values"
    ),
}
# Types of other programs.
MEANT = {
    "uniform": "'float'",
    "loguniform": "'float' with log: true",
    "integer": "'int'",
    "choice": "'categorical'",
    "bool": "'boolean'",
    "constant": "'fixed'",
    "flaot": "'float'",
}
# The text of a configuration, the line of the mistake, and what is said of it.
WRONG: list[tuple[str, int, str]] = [
    *((objective(keys), 2, said) for keys, said in OBJECTIVES.items()),
    *((parameter(keys), 3, said) for keys, said in PARAMETERS.items()),
    *((f"{WHOLE}{key}\n", 4, said) for key, said in KEYS.items()),
    *((f"{text}\n", text.count("\n") + 1, said) for text, said in TEXTS.items()),
    *(
        (parameter(f"type: {given}, low: 1"), 3, f"space.x: {TYPES} {given}; did you mean {meant}?")
        for given, meant in MEANT.items()
    ),
    (WHOLE + "? [a]\n: 3\n", 4, "a key must be a word; write it in quotes if it is one"),
    (WHOLE + "iterations:3\n", 5, f"{NOT_YAML} an earlier line has no `key: value` with a space after the colon"),
    (WHOLE + "results: 'a\n", 5, f"{NOT_YAML} a quote is opened and not closed"),
    (f"study: a\nobjective: run\n{SPACE}", 2, f"objective: {MAPPING}, as {{command: run}}, not 'run'"),
    (f"study: a\nobjective:\n{SPACE}", 2, f"objective: {EMPTY} a mapping of keys to values"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "said"), WRONG)
def test_a_wrong_configuration_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int, said: str
) -> None:
    path = tmp_path / "config.yaml"
    # A study that is wrong in its name alone.
    path.write_text(text if "objective" in text else text + "objective: {command: run}\n" + SPACE)
    assert main(["check", str(path)]) == 1
    output, error = capsys.readouterr()
    assert output == ""
    place, _, words = error.removesuffix("\n").partition("config.yaml")
    assert "\n" not in place + words, "exactly one answer"
    assert words == f":{line}: {said}"
    assert not re.search(JARGON, said.removeprefix("not valid YAML"))


COMMANDS = {
    "chek": "there is no command 'chek'; did you mean 'check'?",
    "help": "there is no command 'help'; see dngo --help",
    "check --shema": "there is no option --shema; did you mean --schema?",
    "best -n 3": "there is no option -n; see dngo best --help",
    "check a.yaml b.yaml": "'b.yaml' is one word too many, for example: dngo check my.yaml --run",
    "check --schema --keys": "give either --schema or --keys, not both; see dngo check --help",
    "replay --iteration x": "--iteration must be an integer, not 'x'; see dngo replay --help",
    "replay --iteration": "--iteration needs a value; see dngo replay --help",
    "export --format cvs": f"--format must be one of {FORMATS}, not 'cvs'; did you mean 'csv'?",
    "export --format csv": "--output must be given, for example: dngo export results/my --format csv --output my.csv",
    "add": "give one of file --set; see dngo add --help",
    "init --direction max": "--direction must be one of minimize, maximize, not 'max'; did you mean 'maximize'?",
}


@pytest.mark.parametrize("typed", COMMANDS)
def test_a_wrong_command_line_is_one_line(capsys: pytest.CaptureFixture[str], typed: str) -> None:
    command, *rest = typed.split()
    with pytest.raises(SystemExit) as ended:
        main([command, *rest])
    assert ended.value.code == 2
    output, error = capsys.readouterr()
    assert output == ""
    place = "dngo" if command in ("chek", "help") else f"dngo {command}"
    assert error == f"{place}: {COMMANDS[typed]}\n"
    assert not re.search(JARGON, error)


def test_what_has_no_effect_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    space = [
        "x: {type: float, low: 0, high: 1, step: 0.3}",
        "y: {type: float, low: 0, high: 0.7, step: 0.1}",
        "n: {type: int, low: 1, high: 10, step: 2}",
        "f: {type: fixed, value: 4}",
    ]
    constraints = "space_constraints: ['f == 4', 'x < 2 or f == 4']\n"
    path.write_text(f"{HEAD}space: {{{', '.join(space)}}}\n{constraints}")
    assert main(["check", str(path)]) == 0
    said = re.findall("Warning: (.*)", capsys.readouterr().out)
    assert said == [
        "space.x: steps of 0.3 from 0 end at 0.9, below high (1)",
        "space.n: steps of 2 from 1 end at 9, below high (10)",
        "space_constraints.0: 'f == 4' always holds with the fixed values",
    ]


ERRORS = {error["type"]: error["example_context"] or {} for error in core.list_all_errors()}


@pytest.mark.parametrize("name", ERRORS)
def test_no_error_of_pydantic_is_told_in_its_own_words(name: str) -> None:
    context = dict(ERRORS[name])
    if name in ("value_error", "assertion_error"):
        context["error"] = ValueError("in words of our own")
    said = PydanticKnownError(name, context or None).message()
    key = "surrogate" if name.startswith("union_tag") else "iterations"
    details = InitErrorDetails(type=name, ctx=context, loc=(key,), input=[3])
    wrong = ValidationError.from_exception_data("Config", [details])
    line = "\n".join(explain(wrong, Config, {}, "config.yaml"))
    assert re.fullmatch(r"config\.yaml: (iterations|surrogate): .+", line)
    assert said.lower() not in line.lower()
    assert not re.search(JARGON, line)


def test_what_yaml_1_1_makes_of_a_document_is_told_in_the_same_way() -> None:
    """A module's configuration comes as Python's values, from Snakemake."""
    document = {
        "study": datetime.date(2024, 1, 31),
        "objective": {"command": "run"},
        "space": {"x": {"type": "boolean"}},
    }
    with pytest.raises(
        UserError, match=r"study: 2024-01-31 is a date in YAML; write it in quotes if it is a word$"
    ):
        validate(document)


def test_a_key_moves_no_cursor(tmp_path: Path, capsys) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        'study: s\nobjective: {command: "true"}\nspace: {"a\\e[2Jb": {type: boolean}}\n'
    )
    assert main(["check", str(path)]) == 1
    said = capsys.readouterr().err
    assert said.strip().isprintable() and r"a\x1b[2Jb" in said
