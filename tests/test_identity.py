"""What a Python function is: two that may differ in anything never share a study, and the same
function goes on, also in another process.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import os
import re
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import ran
from toy import ROOT

import dngo
from dngo.cli import main
from dngo.errors import UserError
from dngo.evaluation.identity import identity, not_compared

SPACE = {"x": (0.0, 3.0)}
CHEAP: dict[str, Any] = {"acquisition": "random", "progress": False, "workers": 0}

# Each source makes the function `f`. Two sources of one kind differ in one thing that counts.
HEAD = """
import dataclasses, enum, functools, helpers
from helpers import shared
LIMIT = 1
"""
# A number in it differs where NUMBER stands, or the second text is another one.
KINDS = {
    "code": "def f(x): return x + NUMBER",
    "type of a constant": ("def f(x): return x + 1", "def f(x): return x + 1.0"),
    "nested code": "def f(x): return [v + NUMBER for v in (x,)][0]",
    "inner function": "def f(x):\n  def g(y): return y + NUMBER\n  return g(x)",
    "closure": "def fold(k):\n  def f(x): return x + k\n  return f\nf = fold(NUMBER)",
    "closure of a closure": (
        "def fold(k):\n  def g(x): return x + k\n"
        "  def f(x): return g(x)\n  return f\nf = fold(NUMBER)"
    ),
    "array": (
        "import numpy as np\ndef fold(k):\n  def f(x): return x + float(k.sum())\n  return f\n"
        "f = fold(np.arange(NUMBER))"
    ),
    "default": "def f(x, k=NUMBER): return x + k",
    "keyword default": "def f(x, *, k=NUMBER): return x + k",
    "partial": "def g(k, x): return x + k\nf = functools.partial(g, NUMBER)",
    "partial by keyword": "def g(x, k): return x + k\nf = functools.partial(g, k=NUMBER)",
    "bound method": (
        "class M:\n  def __init__(self, k): self.k = k\n"
        "  def f(self, x): return x + self.k\nf = M(NUMBER).f"
    ),
    "callable object": (
        "class M:\n  def __init__(self, k): self.k = k\n"
        "  def __call__(self, x): return x + self.k\nf = M(NUMBER)"
    ),
    "object with slots": (
        "class M:\n  __slots__ = ('k',)\n"
        "  def __call__(self, x): return x + self.k\nf = M()\nf.k = NUMBER"
    ),
    "other method of its class": (
        "class M:\n  def h(self, x): return x + NUMBER\n"
        "  def f(self, x): return self.h(x)\nf = M().f"
    ),
    "base class": (
        "class B:\n  def h(self, x): return x + NUMBER\nclass M(B):\n"
        "  def f(self, x): return self.h(x)\nf = M().f"
    ),
    "class attribute": "class M:\n  k = NUMBER\n  def f(self, x): return x + self.k\nf = M().f",
    "class method": "class M:\n  k = NUMBER\n  @classmethod\n  def f(cls, x): return x + cls.k\nf = M.f",
    "static method": "class M:\n  @staticmethod\n  def f(x): return x + NUMBER\nf = M.f",
    "dataclass": (
        "@dataclasses.dataclass\nclass M:\n  k: int = 0\n"
        "  def f(self, x): return x + self.k\nf = M(NUMBER).f"
    ),
    "enum": "class M(enum.Enum):\n  A = NUMBER\ndef f(x): return x + M.A.value",
    "decorated": (
        "def more(g):\n  @functools.wraps(g)\n  def inner(*a, **k): return g(*a, **k)\n"
        "  return inner\n@more\ndef f(x): return x + NUMBER"
    ),
    "decorator": (
        "def more(g):\n  @functools.wraps(g)\n  def inner(x): return g(x) + NUMBER\n"
        "  return inner\n@more\ndef f(x): return x"
    ),
    "cached": "@functools.lru_cache\ndef f(x): return x + NUMBER",
    "vectorised": (
        "import numpy as np\ndef g(x): return x + NUMBER\n"
        "h = np.vectorize(g)\ndef f(x): return float(h(x))"
    ),
    "global": ("def f(x): return x + LIMIT", "LIMIT = 2\ndef f(x): return x + LIMIT"),
    "global of a function that it calls": (
        "def g(x): return x + LIMIT\ndef f(x): return g(x)",
        "LIMIT = 2\ndef g(x): return x + LIMIT\ndef f(x): return g(x)",
    ),
    "global container": "K = {'a': [NUMBER]}\ndef f(x): return x + K['a'][0]",
    "global that is new": ("def f(x): return x + K", "K = 1\ndef f(x): return x + K"),
    "module's global": (
        "def f(x): return helpers.add(x)",
        "helpers.AMOUNT = 7\ndef f(x): return helpers.add(x)",
    ),
    "value of a module": (
        "def f(x): return x + helpers.AMOUNT",
        "helpers.AMOUNT = 7\ndef f(x): return x + helpers.AMOUNT",
    ),
    "attribute of the function": "def f(x): return x + f.k\nf.k = NUMBER",
    "recursion": "def f(x): return NUMBER if x < 0 else f(x - 1)",
    "circle": "def g(x): return f(x - 1)\ndef f(x): return NUMBER if x < 0 else g(x)",
    "circle of objects": (
        "class N: pass\na, b = N(), N()\na.to, b.to = b, a\n"
        "b.k = NUMBER\ndef f(x): return x + a.to.k"
    ),
    "coroutine": "import asyncio\nasync def g(x): return x + NUMBER\ndef f(x): return asyncio.run(g(x))",
    "class as a function": "class f(float):\n  def __new__(cls, x): return float.__new__(cls, x + NUMBER)",
    "builtin": ("import math\nf = math.sqrt", "import math\nf = math.cos"),
    "keys and order of a set": (
        "K = {'a', 'b', 'c'}\ndef f(x): return x + len(K)",
        "K = {'a', 'b', 'd'}\ndef f(x): return x + len(K)",
    ),
}


def texts(kind: str) -> list[str]:
    """Two sources of a kind."""
    found = KINDS[kind]
    return [found.replace("NUMBER", n) for n in "12"] if isinstance(found, str) else [*found]


def made(text: str, **names: Any) -> Callable[..., Any]:
    """The function f of a source, as a script would define it."""
    scope: dict[str, Any] = {"__name__": "__main__", **names}
    exec(compile(HEAD + text, "script", "exec"), scope)
    found: Callable[..., Any] = scope["f"]
    return found


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("helpers.py").write_text("AMOUNT = 1\ndef add(x): return x + AMOUNT\nshared = [1]\n")
    monkeypatch.delitem(sys.modules, "helpers", raising=False)
    importlib.invalidate_caches()
    yield
    sys.modules.pop("helpers", None)


@pytest.mark.parametrize("kind", KINDS)
def test_what_differs_in_anything_is_another_function(kind: str) -> None:
    parts = []
    for text in (*texts(kind), texts(kind)[0]):
        sys.modules.pop("helpers", None)
        parts.append(identity(made(text)))
    assert parts[0] == parts[2] != parts[1]
    assert not any(not_compared(each) for each in parts)


def test_a_new_process_finds_the_same_functions() -> None:
    """With another seed of hashes, and with comments, docstrings and lines elsewhere."""
    script = """
        import json, sys
        from dngo.evaluation.identity import identity
        found = {}
        for kind, text in json.load(sys.stdin).items():
            sys.modules.pop("helpers", None)
            scope = {"__name__": "__main__"}
            exec(text, scope)
            found[kind] = identity(scope["f"])
        print(json.dumps(found))
    """
    plain = {kind: HEAD + texts(kind)[0] for kind in KINDS}
    told = {kind: _with_comments(text) for kind, text in plain.items()}
    found = []
    for seed, sources in enumerate((plain, plain, told)):
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:.", "PYTHONHASHSEED": str(seed)}
        done = ran(
            [sys.executable, "-c", textwrap.dedent(script)],
            env=environment,
            input=json.dumps(sources),
            check=True,
        )
        found.append(json.loads(done.stdout))
    for kind in KINDS:
        assert found[0][kind] == found[1][kind] == found[2][kind], kind


def _with_comments(text: str) -> str:
    """The same source with a docstring, and a comment before each function."""
    told = re.sub(r"^( *)((async )?def |@)", r"\n\1# about it\n\1\2", text, flags=re.MULTILINE)
    return f"'''What it is.'''\n{told}"


def fold(k: float) -> Callable[[float], float]:
    def loss(x: float) -> float:
        return (x - k) ** 2 + 100 * k

    return loss


def refused(function: Callable[..., Any], what: str) -> str:
    """What is said to another function, in which this has changed."""
    with pytest.raises(UserError, match=f"another function gave its values: {what}") as error:
        dngo.minimize(function, SPACE, 4, **CHEAP)
    return str(error.value)


def test_no_fold_gets_the_result_of_another() -> None:
    assert dngo.minimize(fold(0), SPACE, 4, **CHEAP).best().objective < 10
    archive = Path("dngo-studies/loss/archive.h5")
    before = archive.read_bytes()
    for k in (1, 2):
        with pytest.raises(UserError) as error:
            dngo.minimize(fold(k), SPACE, 4, **CHEAP)
        said = str(error.value)
        assert "the value of k in the function has changed" in said and "\n" not in said
        assert "does not matter to the result in os.environ" in said
        assert "another `name`" in said and re.search(r"dngo fork \S+/loss --name loss_2$", said)
        assert archive.read_bytes() == before
        assert (
            dngo.minimize(fold(k), SPACE, 4, name=f"fold{k}", **CHEAP).best().objective >= 100 * k
        )
    assert len(dngo.minimize(fold(0), SPACE, 5, **CHEAP).table()) == 5


def test_the_same_name_with_another_function_is_refused_also_in_flight() -> None:
    def halts(x: float) -> float:
        if len(list(Path("dngo-studies").rglob("*.json"))) > 4:
            raise KeyboardInterrupt
        return x

    with pytest.raises(KeyboardInterrupt):
        dngo.minimize(halts, SPACE, 8, name="a", **CHEAP)
    with pytest.raises(UserError, match="another function"):
        dngo.minimize(fold(1), SPACE, 8, name="a", **CHEAP)


def test_of_an_archive_of_an_earlier_release_the_text_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as context:
        context.setattr("dngo.config.Objective.function", {})
        dngo.minimize(fold(0), SPACE, 3, **CHEAP)

    def other(x: float) -> float:
        return x

    other.__name__ = "loss"
    refused(other, "the text of loss has changed")
    assert len(dngo.minimize(fold(0), SPACE, 4, **CHEAP).table()) == 4
    refused(fold(1), "the value of k")


def test_with_another_python_values_and_text_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    dngo.minimize(fold(0), SPACE, 3, **CHEAP)
    monkeypatch.setattr("dngo.evaluation.fingerprint.PYTHON", "3.99")
    monkeypatch.setattr("dngo.evaluation.identity.code_digest", lambda code: "in other words")
    assert len(dngo.minimize(fold(0), SPACE, 4, **CHEAP).table()) == 4
    refused(fold(1), "the value of k")


def test_a_study_goes_on_with_a_package_of_another_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def of(k: int) -> Callable[[float], float]:
        def loss(x: float) -> float:
            return float(np.sqrt(x)) + k

        return loss

    dngo.minimize(of(1), SPACE, 3, **CHEAP)
    monkeypatch.setattr("dngo.evaluation.modules._version", lambda top: "99.1")
    assert "99.1" not in refused(of(2), "the value of k")
    capsys.readouterr()
    for n in (4, 5):
        assert len(dngo.minimize(of(1), SPACE, n, **CHEAP).table()) == n
    lines = [s for s in capsys.readouterr().err.splitlines() if "99.1" in s]
    assert len(lines) == 1
    assert f"the version of numpy was {np.__version__} and is 99.1; earlier" in lines[0]


def test_a_fork_takes_the_evaluations_along(capsys: pytest.CaptureFixture[str]) -> None:
    dngo.minimize(fold(0), SPACE, 4, **CHEAP)
    assert main(["fork", "dngo-studies/loss", "--name", "second"]) == 0
    assert "name='second'" in capsys.readouterr().out
    study = dngo.minimize(fold(1), SPACE, 6, name="second", **CHEAP)
    assert len(study.table()) == 6
    with pytest.raises(UserError, match="another function"):
        dngo.minimize(fold(2), SPACE, 6, name="second", **CHEAP)
    assert main(["fork", "dngo-studies/loss", "--name", "no name"]) == 1
    assert main(["fork", "dngo-studies/loss"]) == 1


def test_a_study_of_failures_alone_goes_on_with_the_mended_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(UserError, match="NameError"):
        dngo.minimize(lambda x: nothing, SPACE, 3, name="a", **CHEAP)  # type: ignore[name-defined] # noqa: F821
    study = dngo.minimize(lambda x: x, SPACE, 3, name="a", **CHEAP)
    assert "earlier evaluations stay" in capsys.readouterr().err
    assert len(study.table()) == 3


def test_a_lambda_has_no_name_of_its_own() -> None:
    for function in (lambda x: x, functools.partial(lambda k, x: x + k, 1)):
        with pytest.raises(UserError, match=r"a lambda has no name.*name='\.\.\.', or name=None"):
            dngo.minimize(function, SPACE, 2, **CHEAP)
        dngo.minimize(function, SPACE, 2, name=None, **CHEAP)
    assert not Path("dngo-studies").exists()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (lambda: threading.Lock(), "lock"),
        (lambda: sys.__stdout__, "TextIOWrapper"),
        (lambda: (i for i in range(3)), "generator"),
        (lambda: np.zeros(2**26), "an array of 512 MB"),
        (lambda: np.random.default_rng(), "a random generator without a known seed"),
        (lambda: np.frompyfunc(print, 1, 1), "ufunc"),
    ],
)
def test_what_cannot_be_compared_asks_for_a_name(value: Callable[[], Any], why: str) -> None:
    def held(k: Any) -> Callable[[float], float]:
        def loss(x: float) -> float:
            return x if k is None else x + 1

        return loss

    with pytest.raises(UserError) as error:
        dngo.minimize(held(value()), SPACE, 2, **CHEAP)
    said = str(error.value)
    assert why in said and "name='...'" in said and "\n" not in said
    for n in (2, 3):
        assert len(dngo.minimize(held(value()), SPACE, n, name="a", **CHEAP).table()) == n
    with pytest.raises(UserError, match="another function"):
        dngo.minimize(held(None), SPACE, 3, name="a", **CHEAP)


def test_what_its_own_calls_change_does_not_make_another_function() -> None:
    seen: list[float] = []
    known: dict[float, float] = {}
    count = itertools.count()

    class Model:
        calls = 0

        def loss(self, x: float) -> float:
            self.calls += 1
            return x

    def appends(x: float) -> float:
        seen.append(x)
        return x

    def remembers(x: float) -> float:
        known[x] = next(count)
        return known[x]

    model = Model()
    for function in (appends, remembers, model.loss):
        for n in (2, 3):
            study = dngo.minimize(function, SPACE, n, **CHEAP)
            assert len(study.table()) == n
    assert identity(appends) == identity(appends) and len(seen) == 3


def test_what_a_function_imports_when_it_is_called_counts() -> None:
    text = "def f(x):\n  from helpers import add\n  import numpy as np\n  return add(x)"
    before = identity(made(text))
    assert "the module helpers" in before and before["the version of numpy"] == np.__version__
    Path("helpers.py").write_text("# a comment\n" + Path("helpers.py").read_text())
    assert identity(made(text)) == before
    Path("helpers.py").write_text("AMOUNT = 2\ndef add(x): return x + AMOUNT\nshared = [1]\n")
    changed = {n for n, sha in identity(made(text)).items() if before.get(n) != sha}
    assert changed == {"the module helpers"}


def test_a_script_that_is_started_again_goes_on() -> None:
    text = textwrap.dedent("""
        import sys, dngo, numpy as np
        from pathlib import Path
        NAMES = {"a", "b", "c", "d"}
        DATA = Path(__file__).parent / "data.csv"
        class Model:
            def __init__(self, data): self.data, self.names = data, NAMES
            def loss(self, x):
                with open("ran", "a") as stream: stream.write("1\\n")
                return float(x + self.data.sum()) + len(self.names) + len(str(DATA)) * 0
        if __name__ == "__main__":
            model = Model(np.arange(5.0))
            study = dngo.minimize(model.loss, {"x": (0.0, 1.0)}, int(sys.argv[1]), acquisition="random")
            print(len(study.table()))
    """)
    place = Path("one")
    for n in (3, 4):
        place.mkdir()
        if n > 3:
            Path("before").rename(place)
        (place / "run.py").write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(n)}
        done = ran([sys.executable, "run.py", str(n)], cwd=place, env=environment)
        assert (done.stdout.strip(), done.returncode) == (str(n), 0), done.stderr
        assert len((place / "ran").read_text().splitlines()) == n
        place.rename("before")
        place = Path(f"moved{n}")


def test_a_module_that_is_loaded_again_is_read_again() -> None:
    import helpers  # type: ignore[import-not-found]

    before = identity(helpers.add)
    importlib.reload(helpers)
    assert identity(helpers.add) == before
    Path("helpers.py").write_text("# a comment\nAMOUNT = 2\ndef add(x): return x + AMOUNT\n")
    os.utime("helpers.py", (1, 1))
    assert identity(helpers.add) == before, "what runs is what counts"
    importlib.invalidate_caches()
    importlib.reload(helpers)
    changed = {n for n, sha in identity(helpers.add).items() if before.get(n) != sha}
    assert changed == {"the value of AMOUNT in the function"}
