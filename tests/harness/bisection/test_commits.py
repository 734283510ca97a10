"""A git range is searched in worktrees, and the tree stays as it was."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from file_queue import AGAIN, BROKEN, QUEUE, SCENARIO, Repository

from killpoint.bisection.commits import between
from killpoint.cli import main
from killpoint.errors import BadUsage


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Five commits, the third of which cannot be loaded."""
    made = Repository(tmp_path / "tree")
    for subject, queue in (("one", QUEUE), ("two", QUEUE), ("three", BROKEN), ("four", AGAIN)):
        made.commit(subject, queue)
    made.git("tag", "end")
    return made


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "three-small.toml"
    file.write_text(SCENARIO)
    return file


def test_the_breaking_commit_is_narrowed_down_to_what_can_be_loaded_and_nothing_is_left(
    repository: Repository, scenario: Path, capsys: pytest.CaptureFixture[str]
):
    before = repository.seen()
    (repository.root / "notes").write_text("not committed")
    words = ["--tree", str(repository.root), "--good", "end~3", "--bad", "HEAD", "--json"]
    assert main(["bisect", *words, str(scenario)]) == 3
    out, told = capsys.readouterr()
    answer = json.loads(out)
    assert [each["outcome"] for each in answer["tried"]] == ["held", "violated", "skipped", "held"]
    assert answer["older"].endswith(" two")
    assert answer["newer"].endswith(" four")
    assert "three: skipped" in told
    (repository.root / "notes").unlink()
    assert repository.seen() == before


def test_an_interrupt_removes_the_worktree(repository: Repository, scenario: Path):
    before, worktrees = repository.seen(), repository.root / ".git" / "worktrees"
    words = ["--tree", str(repository.root), "--good", "end~3", "--bad", "end", str(scenario)]
    command = [sys.executable, "-m", "killpoint.cli", "bisect", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0) as running:
        _until(worktrees.exists)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        running.communicate(timeout=60)
    # Interrupted in an ``exec``, as dataclasses use it, CPython ends by SIGINT whoever handled it;
    # a shell tells 130 of both.
    assert running.returncode in (130, -signal.SIGINT)
    assert repository.seen() == before


def _until(condition: Callable[[], bool]) -> None:
    """Look until it is so, for 60 s at most."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "bisect has made no worktree"
        select.select([], [], [], 0.01)


def test_a_worktree_is_the_commit_and_gone_afterwards_and_no_hook_hears_of_it(
    repository: Repository,
):
    hook = repository.root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {repository.root}/heard\n")
    hook.chmod(0o755)
    line, good_is_older = between(repository.root, "end", "end~3", None)
    assert not good_is_older
    assert [name.split()[1] for name in line.names] == ["one", "two", "three", "four"]
    with line.at(1) as target:
        place = Path(target.removeprefix("vllm@"))
        assert "# two" in next(place.glob("vllm/**/*.py")).read_text()
    assert not place.parent.exists()
    assert len(repository.seen()[0].splitlines()) == 1
    assert not (repository.root / "heard").exists()


def test_of_a_merge_the_first_parent_is_followed_and_a_part_of_a_repository_will_do(
    repository: Repository,
):
    repository.git("checkout", "--quiet", "-b", "side", "end~1")
    repository.commit("aside", QUEUE)
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--strategy=ours", "--message", "merged", "side")
    line, _ = between(repository.root / "vllm", "end~3", "main", "vllm")
    assert [name.split()[1] for name in line.names] == ["one", "two", "three", "four", "merged"]
    with line.at(0) as target:
        assert target.endswith("/vllm")
    with pytest.raises(BadUsage, match="comes after the other"):
        between(repository.root, "end", "side", None)


def test_another_repository_that_begins_us_is_not_taken_for_the_tree(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert len(between(repository.root, "end~1", "end", None)[0].names) == 2


@pytest.mark.parametrize(
    ("ends", "words"),
    [(("end", "HEAD"), "the same commit"), (("end", "no-such"), "no commit 'no-such'")],
)
def test_ends_that_are_none_are_told(repository: Repository, ends: tuple[str, str], words: str):
    with pytest.raises(BadUsage, match=words):
        between(repository.root, *ends, None)


def test_a_folder_that_is_no_tree_is_told(tmp_path: Path):
    with pytest.raises(BadUsage, match="expected a git working tree"):
        between(tmp_path, "a", "b", None)
