"""Evaluate a Python function in a process of its own. It gets the parameters by name.

A function may instead have one argument, whose name is not a parameter's. It gets all parameters as
one mapping.

`python -P -m dngo.evaluation.call REPORT module:function`; REPORT is as in `dngo.evaluation.start`.
`python -P -m dngo.evaluation.call --check module:function` imports the function, checks that it
takes the parameters on standard input, and calls nothing.

Modules are looked for in Python's own library, then in the folder where this was started, then
among packages. So a file `types.py` or `json.py` beside the function does not hide Python's module.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import sys
import sysconfig
from collections.abc import Collection, Mapping
from importlib.machinery import PathFinder
from typing import Any

from dngo.storage.plain import MAX_DEPTH, MOST_BYTES, fitting, plain, scalar

CALLS = __file__  # the place of frames that are not the function's


def main() -> None:
    """Call the function with the parameters as keywords; report what it returns."""
    report, name = int(sys.argv[1]), sys.argv[2]
    os.set_inheritable(report, False)
    try:
        function = _find(name)
    except (Exception, SystemExit) as error:
        _complain(report, _cannot_import(name, error))
        raise
    parameters = json.load(sys.stdin)
    try:
        result = called(function, parameters)
    except TypeError as error:
        here = error.__traceback__
        if here is not None and here.tb_next is not None and here.tb_next.tb_next is None:
            # The call itself failed: the function takes other arguments.
            _complain(report, _cannot_call(name, error))
        raise
    os.close(report)
    write_report(result)


def called(function: Any, parameters: dict[str, Any], names: Collection[str] = ()) -> Any:
    """The value of a function at a point. names: all parameters of the space, if they are known."""
    if not takes_a_mapping(function, names or parameters):
        return function(**parameters)
    try:
        return function(parameters)
    except (AttributeError, TypeError) as error:
        if not re.search(r"\bdict\b", str(error)):
            raise
        (one,) = _needed(function)
        first = next(iter(parameters))
        error.args = (
            f"{error}: {one.name} is no parameter, so it is all of them as a mapping; write "
            f"{one.name}[{first!r}], or name an argument {first}",
        )
        raise


def takes_a_mapping(function: Any, parameters: Collection[str]) -> bool:
    """Whether a function takes a point as one argument.

    It must need exactly one argument. This argument has no default, and no parameter has its name.
    """
    needed = _needed(function)
    return (
        len(needed) == 1
        and needed[0].kind != needed[0].KEYWORD_ONLY
        and needed[0].name not in parameters
    )


def _needed(function: Any) -> list[inspect.Parameter]:
    """The arguments that a function must get; none if they are unknown, as in one written in C."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        p for p in found if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]


def write_report(result: Any) -> None:
    """Write what a function returned to the file `DNGO_OUTCOME`, unless the function has done so."""
    outcome = os.environ["DNGO_OUTCOME"]
    if result is None and os.path.exists(outcome):
        return
    # Write all or nothing, since a file counts even if this process is killed.
    temporary = f"{outcome}.tmp"
    with open(temporary, "w", encoding="utf-8") as stream:
        stream.write(document_of(result))
    os.replace(temporary, outcome)


def document_of(result: Any) -> str:
    """A function's return value as a report. This never raises; a value that JSON lacks becomes text."""
    document = {} if result is None else {"objective": result}
    if isinstance(result, Mapping):
        document = dict(result)
    held = document.get("constraints")
    for part in (document, held := dict(held) if isinstance(held, Mapping) else {}):
        part.update({name: scalar(part[name]) for name in part if name != "metadata"})
    if held:
        document["constraints"] = held
    text = json.dumps(plain(document, MAX_DEPTH + 1))
    if len(text) > MOST_BYTES and "metadata" in document:
        given = plain(document["metadata"])
        document["metadata"] = fitting(given if isinstance(given, dict) else {"metadata": given})
        text = json.dumps(plain(document, MAX_DEPTH + 1))
    return text


def check() -> None:
    """Say where the function is defined. If it cannot be called, say why, with exit status 1."""
    name, parameters = sys.argv[2], json.load(sys.stdin)
    try:
        function = _find(name)
    except (Exception, SystemExit) as error:
        sys.exit(_cannot_import(name, error))
    try:
        if not takes_a_mapping(function, parameters):
            inspect.signature(function).bind(**parameters)
    except TypeError as error:
        sys.exit(_cannot_call(name, error))
    except ValueError:
        pass  # written in C: its arguments are unknown
    print(getattr(inspect.getmodule(function), "__file__", None) or "built in")


def _find(name: str) -> Any:
    """The function named module:function. Its module may be in the folder where this was started.

    Raises ImportError if a file there has the name of a module that is needed here.
    """
    folder, library = os.getcwd(), sysconfig.get_path("platstdlib")
    own = {library, sysconfig.get_path("stdlib"), os.path.join(library, "lib-dynload")}
    first = [path for path in sys.path if path in own]
    sys.path[:] = [*first, folder, *(path for path in sys.path if path not in own)]
    module, _, function = name.partition(":")
    top = module.partition(".")[0]
    spec = PathFinder.find_spec(top, [folder])
    if spec is not None and spec.origin is not None and spec.loader is not None:
        if top in sys.modules or top in sys.stdlib_module_names:
            raise ImportError(
                f"{spec.origin} has the name of a module that Python or dngo needs; rename it"
            )
        # Take the folder's module, even if a package has the same name.
        sys.modules[top] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[top])
    return getattr(importlib.import_module(module), function)


def _hidden() -> str:
    """Files of the folder that hide modules, and files that modules hide."""
    folder, found = os.getcwd(), []
    for file in sorted(os.listdir(folder)):
        name = file.removesuffix(".py")
        if file == name or name not in sys.modules:
            continue
        if name in sys.stdlib_module_names or name == "dngo":
            found.append(
                f"`import {name}` does not import {file} there, but a module of Python or dngo"
            )
        elif PathFinder.find_spec(name, [path for path in sys.path if path != folder]):
            found.append(f"{file} there hides the package {name}")
    return "".join(f"; {each}" for each in found)


def _complain(report: int, why: str) -> None:
    line = " ".join(why.split()).encode("utf-8", "replace")[:2000]
    os.write(report, b"! callable: " + line + b"\n")


def _cannot_import(name: str, error: BaseException) -> str:
    return (
        f"{name!r} cannot be imported: {type(error).__name__}: {error}; modules are looked for in "
        f"{os.getcwd()} and among the packages of {sys.executable}{_hidden()}"
    )


def _cannot_call(name: str, error: TypeError) -> str:
    return (
        f"{name!r} cannot be called: {error}; its arguments are the parameters of `space`, by name"
    )


if __name__ == "__main__":
    check() if sys.argv[1] == "--check" else main()
