"""The whole command: targets one after the other, an interrupt, and going on after it."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from stored_rows import CASE, stored

from killpoint.cli import main
from killpoint.judgement.resume import can_go_on

WORDS = ["matrix", "--only", CASE, "--budget", "5", "--shrink", "0"]


def test_what_was_played_is_kept_and_what_cannot_be_had_holds_nobody_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    stored(tmp_path)
    words = ["--targets", "nobody,vllm==0.26.0", "--out", str(tmp_path)]
    assert main([*WORDS, *words]) == 70
    told = capsys.readouterr().err
    assert "1/2 nobody: infrastructure: unknown target 'nobody'" in told
    assert "2/2 vllm==0.26.0: played before; 0 holds, 1 violated" in told
    page = (tmp_path / "matrix.md").read_text()
    assert "- `nobody`: infrastructure" in page
    assert "[✗](matrix/vllm-0.26.0.md#r7)" in page
    assert CASE in (tmp_path / "matrix.html").read_text()


def test_an_interrupt_ends_the_check_and_leaves_what_was_finished(tmp_path: Path):
    _, row = stored(tmp_path)
    words = ["--targets", "vllm==0.26.0,refengine", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "killpoint.cli", *WORDS, *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as matrix:
        _until(lambda: _runs(tmp_path / "refengine") != [])
        matrix.send_signal(signal.SIGINT)
        told = matrix.communicate(timeout=60)[1]
    assert matrix.returncode == 130
    assert "vllm==0.26.0: played before" in told
    left = [tmp_path / "refengine" / name for name in _runs(tmp_path / "refengine")]
    # Its one case may have ended before the interrupt came: on a busy machine it has.
    assert [run for run in left if not can_go_on(run)] == [], "the check did not clean up"
    assert _runs(tmp_path / "vllm-0.26.0") == [row.run]
    assert not (tmp_path / "refengine" / "row.json").exists()


def _runs(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*/")]


def _until(condition: Callable[[], bool]) -> None:
    """Look until it is so, for 30 s at most."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "the check has not made its run's folder"
        select.select([], [], [], 0.01)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--only", "R99"], "R99"),
        (["--markdown", "matrix.html"], "ends in .md"),
        (["--targets", "own:a,own-a"], "would share a folder"),
        (["--budget", "soon"], "is not a time"),
        (["--budget", "0"], "expected seconds above 0"),
        (["--jobs", "0"], "not a number of plays"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_is_played(
    tmp_path: Path, words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
):
    arguments = ["matrix", "--targets", "nobody", "--out", str(tmp_path / "out"), *words]
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
