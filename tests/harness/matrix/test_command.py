"""The whole command: targets one after the other, an interrupt, and going on after it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stored_rows import stored

from killpoint.cli import main

WORDS = ["matrix", "--only", "R7", "--budget", "5", "--shrink", "0"]


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
    assert "[✗](<matrix/vllm-0.26.0.md#r7>)" in page


def test_an_interrupt_ends_the_check_and_leaves_what_was_finished(
    tmp_path: Path, leftovers: Callable[[], set[str]]
):
    _, row = stored(tmp_path)
    words = ["--targets", "vllm==0.26.0,refengine", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "killpoint.cli", *WORDS, *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as matrix:
        assert matrix.stderr is not None
        told = [matrix.stderr.readline(), matrix.stderr.readline()]
        matrix.send_signal(signal.SIGINT)
        assert matrix.wait(60) == 130
    assert "vllm==0.26.0: played before" in told[0]
    assert "refengine: playing" in told[1]
    assert leftovers() == set()
    assert (tmp_path / "vllm-0.26.0" / row.run / "verdict.json").is_file()
    assert not (tmp_path / "refengine" / "row.json").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--only", "R99"], "R99"),
        (["--markdown", "matrix.html"], "ends in .md"),
        (["--targets", "own:a,own-a"], "would share a folder"),
        (["--budget", "soon"], "is not a time"),
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
