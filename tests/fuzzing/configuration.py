"""A configuration with something of it damaged, given to `check`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from toy import ROOT

from fuzzing.damage import damaged_bytes
from fuzzing.guard import Result, command, guarded

CONFIGURATIONS = [ROOT / "config.yaml", *sorted((ROOT / "examples").glob("*/config.yaml"))]
SCALARS = [
    *(
        "null",
        "[]",
        "{}",
        "~",
        "-1",
        "0",
        "1e400",
        ".inf",
        ".nan",
        "yes",
        '""',
        "2024-01-01",
        "0x1F",
    ),
    *('"\\0"', '"\\ud800"', '"\\ud83d\\ude00"', "*a", "&a [*a]", "!!python/name:os.system", "!x y"),
    *(
        "[1, 1.0, true]",
        "[" * 2000,
        "{a: " * 500,
        "9" * 5000,
        "1" + "0" * 400,
        "|",
        "'",
        "\t",
        "? x",
    ),
]


def configuration(folder: Path, rng: random.Random) -> Iterator[tuple[str, Result]]:
    """A configuration with something of it damaged, given to `check`."""
    source = rng.choice(CONFIGURATIONS)
    path = folder / "config.yaml"
    if rng.random() < 0.3:
        what, data = damaged_bytes(source.read_bytes(), rng)
        path.write_bytes(data)
    else:
        what, lines = "lines", source.read_text().splitlines()
        for _ in range(rng.choice([1, 1, 2, 5])):
            i, other = (rng.randrange(len(lines)) for _ in range(2))
            kind = rng.choice(["value", "value", "value", "lost", "double", "indent", "key"])
            key, colon, _value = lines[i].partition(":")
            if kind == "value":
                lines[i] = f"{key}{colon or ':'} {rng.choice(SCALARS)}"
            elif kind == "lost":
                del lines[i]
            elif kind == "double":
                lines.insert(other, lines[i])
            elif kind == "indent":
                lines[i] = " " * rng.randrange(8) + lines[i].lstrip()
            else:
                lines[i] = f"{rng.choice(SCALARS)}: 1"
        path.write_text("\n".join(lines) + "\n")
    yield f"{source.parent.name}, {what}", guarded(command("check", str(path)))
