"""What was printed at a point can be read, whatever became of a merge."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from dngo.storage import logs as module
from dngo.storage.logs import PointLogs


def printed(folder: Path, size: int = 3) -> tuple[PointLogs, dict[tuple[int, int], dict[str, str]]]:
    """Logs of two iterations; what `read` is to find of each point."""
    logs, expected = PointLogs(folder), {}
    for t in range(2):
        (folder / str(t)).mkdir(parents=True)
        for slot in range(size):
            found = {"stdout": f"ö{t} {slot}\n"} | ({"stderr": "warning\n" * slot} if slot else {})
            for stream, text in found.items():
                logs.path(t, slot, stream).write_text(text)
            expected[t, slot] = found
        expected[t, size] = {}
    return logs, expected


def check(logs: PointLogs, expected: dict[tuple[int, int], dict[str, str]]) -> None:
    assert {point: logs.read(*point) for point in expected} == expected


def test_a_bundle_holds_what_the_files_held(tmp_path: Path) -> None:
    logs, expected = printed(tmp_path)
    check(logs, expected)
    logs.bundle(1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.zip", "1"]
    check(logs, expected)
    logs.bundle(2)
    logs.bundle(2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.zip", "1.zip"]
    check(logs, expected)
    assert zipfile.ZipFile(tmp_path / "0.zip").testzip() is None


@pytest.mark.parametrize("call", ["replacing", "unlink", "rmdir"])
def test_a_merge_that_was_killed_while_it_bundled_lost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Killed before any step of it: the next merge bundles the rest."""
    logs, expected = printed(tmp_path)

    def killed(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*((module, call) if call == "replacing" else (Path, call)), killed)
        with pytest.raises(KeyboardInterrupt):
            logs.bundle(2)
    check(logs, expected)
    logs.bundle(2)
    assert sorted(p.name for p in tmp_path.glob("[!.]*")) == ["0.zip", "1.zip"]
    check(logs, expected)


def test_what_cannot_be_bundled_is_left_alone(tmp_path: Path) -> None:
    logs, expected = printed(tmp_path)
    (tmp_path / "0.zip").write_bytes(b"no zip")
    (tmp_path / "notes").mkdir()
    (tmp_path / "1" / "folder").mkdir()
    logs.bundle(2)
    check(logs, expected)
