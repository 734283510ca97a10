"""A check that was interrupted goes on: what has ended is not played again, and nothing is lost."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

from killpoint.cli import main
from killpoint.errors import BadUsage
from killpoint.judgement.resume import Ended, Kept, can_go_on, taken_up
from killpoint.verdict import CaseOutcome, Violation


def _ended(id: str, plays: int = 1) -> Ended:
    outcome = CaseOutcome(id, id.partition("/")[0], "held")
    outcome.add(Violation("hang", "nobody came", ["a line"]), "replays/a.toml")
    return Ended(outcome, plays, [CaseOutcome("L1/every-play", "L1", "violated")])


def test_what_was_kept_is_there_again_and_half_a_line_is_not(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    assert not can_go_on(tmp_path)
    kept.note(_ended("Q1/a", 3))
    kept.note(_ended("Q1/b"))
    with (tmp_path / "cases.jsonl").open("ab") as file:
        file.write(b'{"outcome":{"id":"Q1/c"')
    again = Kept(tmp_path)
    assert again.ended == kept.ended
    assert can_go_on(tmp_path)


def test_a_folder_that_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="no run that can go on"):
        taken_up(Namespace(resume=tmp_path))
    (tmp_path / "asked.json").write_text('{"target": "refengine"}')
    with pytest.raises(BadUsage, match="does not say without, only, tier"):
        taken_up(Namespace(resume=tmp_path))


def test_what_a_run_was_told_not_to_do_it_does_not_when_it_goes_on(tmp_path: Path) -> None:
    started = ["--only", "R8/missing-segment", "--shrink", "0", "--no-attribution"]
    assert main(["check", *started, "--out", str(tmp_path)]) == 0
    (folder,) = tmp_path.iterdir()
    on = taken_up(Namespace(resume=folder, shrink=None, attribution=None))
    assert (on.shrink, on.attribution) == (0.0, False)
    anew = taken_up(Namespace(resume=folder, shrink=5.0, attribution=True))
    assert (anew.shrink, anew.attribution) == (5.0, True)


def _cases(folder: Path) -> dict[str, dict[str, object]]:
    told = json.loads((folder / "verdict.json").read_text("utf-8"))
    return {case["id"]: case for item in told["invariants"].values() for case in item["cases"]}


def test_what_has_ended_is_taken_as_it_is_and_the_rest_is_played(tmp_path: Path) -> None:
    assert main(["check", "--only", "R8/missing-segment", "--out", str(tmp_path)]) == 0
    (folder,) = tmp_path.iterdir()
    before = _cases(folder)
    asked = json.loads((folder / "asked.json").read_text("utf-8"))
    (folder / "asked.json").write_text(json.dumps(asked | {"only": ["R8"]}))
    assert main(["check", "--resume", str(folder), "--target", "vllm==0.0"]) == 0
    after = _cases(folder)
    assert len(after) > len(before) == 1
    assert after["R8/missing-segment"] == before["R8/missing-segment"]
    assert [each.name for each in tmp_path.iterdir()] == [folder.name]


def test_told_to_end_it_keeps_what_has_ended_and_says_how_to_go_on(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).with_name("killpoint")),
        "check",
        "--only",
        "R8,R1",
        "--jobs",
        "1",
    ]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    end = time.monotonic() + 60
    while not any(can_go_on(folder) for folder in tmp_path.iterdir()):
        assert time.monotonic() < end
        assert process.poll() is None
        select.select([], [], [], 0.02)
    os.kill(process.pid, signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    (folder,) = tmp_path.iterdir()
    assert f"it goes on with: killpoint check --resume {folder}" in said
    had = set(Kept(folder).ended)
    assert had
    assert main(["check", "--resume", str(folder)]) == 0
    assert had < set(_cases(folder))
