"""The tutorial notebook: its cells run from top to bottom, in one process, and say what its text says."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from running import ran
from toy import QUICK_STUDY, ROOT

NOTEBOOK = ROOT / "examples" / "notebook" / "tutorial.ipynb"
# As a kernel does: each cell in the namespace of those before, with the value of its last line shown. Models
# are quickly fitted.
RUN = """
import ast, functools, json, sys
import dngo
dngo.minimize = functools.partial(dngo.minimize, **json.loads(sys.argv[2]))
main = sys.modules["__main__"].__dict__
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), main)
        if last:
            shown = eval(compile(ast.Expression(last.value), "<cell>", "eval"), main)
            print("shown:", type(shown).__name__, str(shown).splitlines()[0][:90])
print(json.dumps([study.table().id.tolist(), best.objective, study.best().objective, len(both.front())]))
"""


@pytest.mark.full
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    done = ran([sys.executable, "-c", RUN, NOTEBOOK, json.dumps(QUICK_STUDY)], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    ids, first, best, front = json.loads(lines[-1])
    assert len(ids) == len(set(ids)) == 26  # the second call went on, and repeated nothing
    assert best <= first < 1 and front > 1
    shown = [line.split()[1] for line in lines if line.startswith("shown: ")]
    assert shown.count("Figure") == 2 and shown.count("DataFrame") + shown.count("Table") == 4
    assert "26 evaluations" in lines[-2] and (tmp_path / "nets.yaml").exists()


def test_the_notebook_is_stored_without_outputs_and_its_links_lead_somewhere() -> None:
    document = json.loads(NOTEBOOK.read_text())
    assert document["nbformat"] == 4 and len({cell["id"] for cell in document["cells"]}) > 10
    for cell in document["cells"]:
        assert not cell.get("outputs") and not cell.get("execution_count")
        for link in re.findall(r"\]\(([^)#\s:]+)\)", "".join(cell["source"])):
            assert (NOTEBOOK.parent / link).exists(), link
