"""Secrets are refused where they would be stored, passed on by name, and never in a file of a
study."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import pytest
from mine import Mine, ends
from running import ran
from toy import advance

import dngo
from dngo import archive
from dngo.batch import Batch
from dngo.check import resolve
from dngo.cli import main
from dngo.errors import UserError
from dngo.evaluation.command import CannotStart
from dngo.evaluation.streams import Kept
from dngo.redaction import Mask, form_of, is_secret, redacted, redacted_command
from dngo.replay import replay

TOKEN = "q7-Zebra+spoon/41"
GITHUB = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
# Says its token wherever a program can say something.
TELLS = """
import hashlib, json, os, sys
p = json.load(sys.stdin)
token = os.environ["API_TOKEN"]
for piece in ("the token is ", token[:5], token[5:], "; "):  # in two writes
    os.write(1, piece.encode())
print("and", token, file=sys.stderr)
with open("runs.txt", "a") as stream:
    stream.write(os.environ["DNGO_ID"] + " " + hashlib.sha256(token.encode()).hexdigest() + chr(10))
if p["x"] > 0.7:
    sys.exit(f"cannot log in with {token}")
print()
told = {"nested": [token, {token: f"<{token}>"}]}
print(json.dumps({"objective": p["x"], "constraints": {"small": True}, "metadata": told}))
"""
FROM = '{command: "{python} objective.py", environment_from: [API_TOKEN]}'


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("API_TOKEN", "abc", True),
        ("apiToken", "q1w2", True),
        ("HFTOKEN", "abc", True),
        ("CLIENT_SECRET", "42", True),
        ("PGPASSWORD", "x", True),
        ("MYSQL_PWD", "sesame", True),
        ("KEY", "foo", True),
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE", True),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", True),
        ("SERVICE_CREDENTIALS", '{"type": "service_account"}', True),
        ("DATABASE_URL", "postgres://user:pw@host/db", True),
        ("HARMLESS", GITHUB, True),
        ("DATABASE_URL", "postgres://host/db", False),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/ada/key.json", False),
        ("SSH_KEY_FILE", "id", False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("MAX_TOKENS", "4096", False),
        ("TOKEN_LIMIT", "4096", False),
        ("USE_TOKEN", "true", False),
        ("PWD", "here", False),
        ("KEYBOARD", "us", False),
        ("OMP_NUM_THREADS", "1", False),
        ("PATH", "/usr/bin:/bin", False),
    ],
)
def test_what_looks_like_a_secret(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


@pytest.mark.parametrize(
    ("command", "stored"),
    [
        ("python x.py --token abc --lr {lr}", "python x.py --token '[redacted]' --lr {lr}"),
        ("python x.py --api-key=abc", "python x.py --api-key=[redacted]"),
        ("x --fast --token abc -v", "x --fast --token '[redacted]' -v"),
        ("env API_TOKEN=abc python x.py", "env API_TOKEN=[redacted] python x.py"),
        ("wget https://u:pw@host/x", "wget https://u:[redacted]@host/x"),
        ("wget https://host/x?a=1&token=abc", "wget https://host/x?a=1&token=[redacted]"),
        (f"git clone https://{GITHUB}@github.com/x", "git clone https://[redacted]@github.com/x"),
        (["x", "--password", "abc", "-v"], ["x", "--password", "[redacted]", "-v"]),
        (["sh", "-c", "API_KEY=abc exec x"], ["sh", "-c", "API_KEY=[redacted] exec x"]),
    ],
)
def test_a_command_is_stored_without_secrets(command: str | list[str], stored: str | list) -> None:
    assert redacted_command(command) == stored
    assert redacted_command(stored) == stored


@pytest.mark.parametrize(
    "command",
    [
        "python x.py --token {token} --tokens 5 --key name --sort-key id --password-file /x/y",
        "bash -lc 'python x.py --token $API_TOKEN'",
        "python -m train --threads=4 key=3 {python} {outcome}",
        ["x", "--token", "--verbose"],
    ],
)
def test_a_command_without_secrets_is_stored_as_it_is(command: str | list[str]) -> None:
    assert redacted_command(command) == command


def test_a_long_text_without_blanks_is_read_in_time() -> None:
    """Such as a picture of a MiB, for a crate: its time must not grow with the square of its length."""
    before = time.process_time()
    assert not form_of("a.b-" * 250_000 + "://")
    assert form_of("a.b-" * 250_000 + "://me:mine@host")
    assert time.process_time() - before < 30


def test_prose_is_no_secret() -> None:
    for text in (
        "Basic characterization failed: the key of the token bucket is missing",
        "KeyError: 'password' in /home/ada/secret.py, line 3",
        "https://host:8080/path and time 12:30 a@b.org",
        "task-sk-learn sk-learn eyJust a.b.c hf_small",
    ):
        assert redacted(text) == text and not form_of(text)


def test_a_mask_hides_values_across_writes_and_leaves_numbers_alone(tmp_path: Path) -> None:
    mask = Mask({"A": TOKEN, "N": "0.12345678", "S": "abc"})
    kept = Kept(tmp_path / "out", 4096, mask)
    text = f"0.12345678 abc {TOKEN}{TOKEN} {TOKEN[:9]} end {TOKEN[:4]}"
    for letter in text.encode():
        kept.feed(bytes([letter]))
    assert kept.last_lines(1) == [text]  # a result is read as it was printed
    kept.close()
    shown = (tmp_path / "out").read_text()
    assert shown == text.replace(TOKEN, "[A]")


# ---- refused at the beginning -------------------------------------------------------------------

SECRETS = {
    "objective.environment.API_TOKEN": (f"{{command: x, environment: {{API_TOKEN: {TOKEN}}}}}", ""),
    "objective.environment.PLACE": (f"{{command: x, environment: {{PLACE: {GITHUB}}}}}", ""),
    "objective.command": (f"{{command: x --password {TOKEN}}}", ""),
    "space.z.value": (
        "{command: x}",
        f"space: {{x: {{type: float, low: 0, high: 1}}, z: {{type: fixed, value: {GITHUB}}}}}",
    ),
}


def secretive(mine: Mine, key: str) -> None:
    objective, more = SECRETS[key]
    mine.write(objective)
    path = mine.folder / "my.yaml"
    text = path.read_text()
    if more:
        before, _, after = text.partition("space:")
        path.write_text(f"{before}{more}\n{after[after.index('constraints:') :]}")


@pytest.mark.parametrize("key", SECRETS)
def test_a_new_study_is_refused_with_a_line_that_says_what_to_do(
    mine: Mine, capsys, key: str
) -> None:
    secretive(mine, key)
    assert mine.dngo("check") == 1
    output, errors = capsys.readouterr()
    assert output == "" and errors.count("\n") == 1
    assert errors.startswith("my.yaml:") and f": {key}: " in errors
    assert TOKEN not in errors and GITHUB not in errors
    if key.startswith("objective"):
        assert "environment_from: [" in errors
    with pytest.raises(UserError, match=key):
        dngo.open(mine.folder / "my.yaml").ask()
    table = mine.folder / "table.csv"
    names, values = ("x,y", "0.5,0.5") if key.startswith("objective") else ("x", "0.5")
    table.write_text(f"{names},objective,small\n{values},1.0,true\n")
    capsys.readouterr()
    assert main(["import", str(table), "--config", str(mine.folder / "my.yaml")]) == 1
    assert f": {key}: " in capsys.readouterr().err
    assert not list(mine.folder.glob("results/mine/**/*.json"))


def test_a_study_of_python_is_refused_as_well(tmp_path: Path) -> None:
    how = {"objective": {"environment": {"API_TOKEN": TOKEN}}, "folder": tmp_path}
    with pytest.raises(UserError, match="API_TOKEN: looks like a secret") as told:
        dngo.minimize(lambda x: x, {"x": (0, 1)}, 2, name="s", **how)
    assert TOKEN not in str(told.value) and not list(tmp_path.rglob("*.h5"))


def test_a_variable_is_given_once(mine: Mine, capsys) -> None:
    for more, wrong in (
        ("environment_from: [A, A]", "A is listed twice"),
        ("environment: {A: b}, environment_from: [A]", "A has a value in objective.environment"),
        ("environment_from: [A-B]", "objective.environment_from.0: "),
    ):
        mine.write(f"{{command: x, {more}}}")
        assert mine.dngo("check") == 1
        assert wrong in capsys.readouterr().err


# ---- passed on by name --------------------------------------------------------------------------


def test_a_missing_variable_is_one_line_before_anything_starts(
    mine: Mine, capsys, monkeypatch
) -> None:
    monkeypatch.delenv("API_TOKEN", raising=False)
    mine.write(FROM, **{"objective.py": TELLS})
    assert mine.dngo("check") == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and "objective.environment_from: API_TOKEN is not set" in errors
    assert mine.dngo("check", "--run") == 1 and "API_TOKEN is not set" in capsys.readouterr().err
    code, errors = mine.snakemake()
    assert code == 1 and "environment_from: API_TOKEN is not set" in errors
    assert "Traceback" not in errors and not (mine.folder / "runs.txt").exists()
    monkeypatch.setenv("API_TOKEN", "")
    with pytest.raises(CannotStart, match="API_TOKEN is not set where this runs, or empty"):
        resolve(mine.study.config)


def test_a_job_without_the_variable_loses_no_point(mine: Mine, monkeypatch) -> None:
    """The shell that submits has it, and the job has not: as where sbatch hands nothing on."""
    mine.write(FROM, **{"objective.py": TELLS})
    monkeypatch.delenv("API_TOKEN", raising=False)
    study = mine.study
    study.propose(0, None, study.iteration(0) / "proposals.json")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    with pytest.raises(CannotStart, match="is not set in job 17 on "):
        ends(study)
    assert mine.outcomes == []
    monkeypatch.setenv("API_TOKEN", TOKEN)
    ends(study)
    assert len(mine.outcomes) == 8


def test_a_trial_shows_no_secret(mine: Mine, capsys, monkeypatch) -> None:
    monkeypatch.setenv("API_TOKEN", TOKEN)
    mine.write(FROM, **{"objective.py": TELLS})
    assert mine.dngo("check", "--run") == 0
    output = capsys.readouterr().out
    assert "[API_TOKEN]" in output and TOKEN not in output


def everything(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.full
def test_a_run_stores_the_value_nowhere_whatever_the_objective_says(
    mine: Mine, monkeypatch
) -> None:
    monkeypatch.setenv("API_TOKEN", TOKEN)
    mine.options |= {"more": "stop: {failures: 0}", "iterations": 0}
    mine.write(FROM, **{"objective.py": TELLS})
    code, errors = mine.snakemake()
    assert code == 0, errors
    runs = dict(line.split() for line in (mine.folder / "runs.txt").read_text().splitlines())
    assert len(runs) == 8 and set(runs.values()) == {hashlib.sha256(TOKEN.encode()).hexdigest()}
    found = everything(mine.folder)
    assert [path for path, data in found.items() if TOKEN.encode() in data] == []
    path = mine.folder / "results/mine/archive.h5"
    with archive.reading(path) as file:
        messages = file["outcomes/message"].asstr()[:]
        metadata = [json.loads(m) for m in file["outcomes/metadata"].asstr()[:]]
    assert any("cannot log in with [API_TOKEN]" in m for m in messages)
    told = {"nested": ["[API_TOKEN]", {"[API_TOKEN]": "<[API_TOKEN]>"}]}
    assert told in metadata
    assert archive.verify(path) == []
    audit = ran(
        [sys.executable, "-m", "dngo", "audit", str(path), "--proposal", "0-0"],
        check=True,
        env={**os.environ, "API_TOKEN": ""},
    )
    assert TOKEN not in audit.stdout


# ---- studies that have begun with one -----------------------------------------------------------


@pytest.mark.full
def test_a_study_that_has_begun_goes_on_with_the_value_and_stores_it_no_more(
    mine: Mine, capsys
) -> None:
    mine.write(
        FROM.replace("environment_from: [API_TOKEN]", "environment: {API_TOKEN: none}"),
        **{"objective.py": TELLS},
    )
    advance(mine.study, 0)
    config = mine.folder / "my.yaml"
    config.write_text(config.read_text().replace("API_TOKEN: none", f"API_TOKEN: {TOKEN}"))
    assert mine.dngo("check") == 0
    output = capsys.readouterr().out
    assert "Warning: my.yaml:3: objective.environment.API_TOKEN: looks like a secret" in output
    code, errors = mine.snakemake()
    assert code == 0, errors
    assert "Warning: my.yaml:3: objective.environment.API_TOKEN" in errors
    last = (mine.folder / "runs.txt").read_text().split()[-1]
    assert last == hashlib.sha256(TOKEN.encode()).hexdigest()
    found = everything(mine.folder)
    assert [path.name for path, data in found.items() if TOKEN.encode() in data] == ["my.yaml"]
    path = mine.folder / "results/mine/archive.h5"
    kept = json.loads(archive.iteration_attributes(path, 1)["config"])
    assert kept["objective"]["environment"] == {"API_TOKEN": "[redacted]"}
    assert [replay(path, t).verdict for t in range(2)] == ["identical"] * 2
    config.write_text(config.read_text().replace(TOKEN, "another-Secret9"))
    assert mine.study.changes() == []  # a secret is no part of what an objective is


def test_a_command_with_a_secret_is_the_same_whatever_the_secret(mine: Mine) -> None:
    mine.write('{command: "{python} objective.py --token none", strict: true}')
    study = mine.study
    study.propose(0, None, study.iteration(0) / "proposals.json")
    path = study.iteration(0) / "proposals.json"
    batch = Batch.read(path)
    # As an earlier release has recorded it.
    batch.environment["objective"]["command"] = f"{{python}} objective.py --token {TOKEN}"
    for place in (path, study.paths.pending(0) / "proposals.json"):
        batch.write(place)
    config = mine.folder / "my.yaml"
    config.write_text(config.read_text().replace("--token none", "--token another-Secret9"))
    assert mine.study.changes() == []
    config.write_text(config.read_text().replace("--token", "--fast --token"))
    with pytest.raises(UserError, match=r"objective\.command was") as refused:
        mine.study.changes()
    assert TOKEN not in str(refused.value) and "another-Secret9" not in str(refused.value)
