"""A change under review: what is new and gone against a revision of the tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from file_queue import AGAIN, FILE, QUEUE, Repository

from killpoint.cli import main
from killpoint.judgement.judge import judge

_ASKED = ["--only", "R3/stream", "--jobs", "1", "--no-attribution"]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """One commit of a queue that holds; nothing of it is committed to after that."""
    monkeypatch.chdir(tmp_path)
    made = Repository(tmp_path / "tree")
    made.commit("one", QUEUE)
    return made


def _review(base: str = "HEAD", *words: str) -> int:
    return main(["check", "--target", "vllm@tree", "--base", base, *_ASKED, *words])


def _comment(tmp_path: Path) -> str:
    return next((tmp_path / "runs").glob("*/comment.md")).read_text()


@pytest.mark.full
def test_what_the_working_files_break_is_new_and_the_tree_is_left_alone(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (repository.root / FILE).write_text(AGAIN)
    before = repository.seen()
    summary = tmp_path / "summary.md"
    assert _review("HEAD", "--summary", str(summary)) == 1
    assert repository.seen() == before
    out, told = capsys.readouterr()
    assert "✗ new: duplicate in R3/stream" in out
    assert (
        "changed: distributed/device_communicators/shm_broadcast.py: MessageQueue.dequeue" in told
    )
    comment = _comment(tmp_path)
    assert summary.read_text() == comment
    for words in ("### ✗ New", "message 1 a second time", "killpoint replay runs/"):
        assert words in comment


@pytest.mark.full
def test_what_the_change_mends_is_gone(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    repository.commit("two", AGAIN)
    repository.commit("three", QUEUE)
    assert _review("HEAD~1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["cases"] for each in found["gone"]] == [["R3/stream"]]
    assert (found["new"], found["unsure"], found["compared"]) == ([], [], 1)
    assert "### ✓ Gone" in _comment(tmp_path)


@pytest.mark.full
def test_what_was_violated_before_is_no_failure_of_the_change(
    repository: Repository, capsys: pytest.CaptureFixture[str]
):
    repository.commit("two", AGAIN)
    (repository.root / FILE).write_text(f"{AGAIN}\nnew = 1\n")
    assert _review("HEAD", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["new"], found["gone"], found["as_before"]) == ([], [], 1)
    assert found["changes"] == [
        {"file": "distributed/device_communicators/shm_broadcast.py", "functions": []}
    ]


def test_a_change_of_nothing_that_is_judged_plays_nothing(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (repository.root / FILE).write_text(f"# a comment\n{QUEUE}")
    (repository.root / "vllm" / "sampler.py").write_text("new = 1\n")
    assert _review() == 0
    assert "nothing was played" in capsys.readouterr().out
    assert "nothing was played" in _comment(tmp_path)
    assert not [*(tmp_path / "runs").glob("*/verdict.json")]


def test_without_time_nothing_is_told(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (repository.root / FILE).write_text(AGAIN)
    assert _review("HEAD", "--budget", "0.001") == 3
    assert "1 cases were not asked" in capsys.readouterr().out
    assert "R3/stream" in _comment(tmp_path)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--target", "file_queue:Target"], "has no revisions; expected vllm@TREE"),
        (["--target", "vllm==0.33.0"], "has no revisions; expected vllm@TREE"),
        (["--target", "refengine"], "has no revisions"),
        (["--target", "vllm@tree", "--known", "known.toml"], "--known cannot be given"),
        (["--target", "vllm@tree", "--shard", "1/2"], "--shard cannot be given"),
        (["--target", "vllm@elsewhere"], "expected a git working tree"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_what_cannot_be_reviewed_is_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert main(["check", "--base", "HEAD", *words]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_revision_that_there_is_not(repository: Repository, capsys: pytest.CaptureFixture[str]):
    assert _review("no-such") == 2
    assert "has no commit 'no-such'" in capsys.readouterr().err


@pytest.mark.full
def test_cases_are_begun_in_the_order_that_is_asked(repository: Repository):
    """None of them can be asked of this tree, so each takes no time."""
    asked = ["C4/engine-lies", "W6/method-raises", "C1/every-order", "G1/all-to-all"]
    begun: list[str] = []
    judge(
        f"vllm@{repository.root}",
        asked,
        jobs=1,
        ordered=True,
        told=lambda case, _done, _all: begun.append(case),
    )
    assert begun == asked
