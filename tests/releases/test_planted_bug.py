"""A bug that no entry explains is told as new, in a copy of a real release's files."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest
from release_files import release_files

from killpoint.cases import select
from killpoint.findings.attribution import Attribution
from killpoint.runner.stage import Stage
from killpoint.search.case_run import CaseRun
from killpoint.targets.edits import Edits, statement
from killpoint.targets.registry import resolve

pytestmark = pytest.mark.network

CASE = "R1/one-reader"
_QUEUE = "shm_broadcast.py"


def _published_before_it_is_reset(edits: Edits) -> None:
    """The written flag is stored before the flags of those who read the slot's last message."""
    writing = edits.function("MessageQueue.acquire_write")
    reset = statement(writing, lambda each: isinstance(each, ast.For), "reset of the flags")
    edits.before(reset, "metadata_buffer[0] = 1")


@pytest.fixture
def planted(tmp_path: Path) -> str:
    release = release_files("0.33.0")
    tree = tmp_path / "tree"
    shutil.copytree(release.root, tree)
    path = next(tree.rglob(_QUEUE))
    edits = Edits(path.read_text("utf-8"))
    _published_before_it_is_reset(edits)
    path.write_text(edits.text(), "utf-8")
    return f"vllm@{tree}"


@pytest.mark.full
def test_a_planted_bug_that_no_entry_explains_is_new(planted: str, tmp_path: Path) -> None:
    with Stage(resolve(planted)) as stage:
        case_run = CaseRun(CASE, stage, seed=0, full=False, folder=tmp_path, target=planted)
        seen = case_run.judge(select([CASE])[0].run)
    assert [(each.kind, each.finding) for each in seen.violations] == [("bad-transition", None)]
    with Attribution(planted) as whose:
        whose.of_cases([seen])
    (violation,) = seen.violations
    assert (violation.finding, violation.how) == (
        "new",
        "it is there with every known finding switched off",
    )
