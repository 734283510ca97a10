"""Functions called where the target is loaded, and a simulated violation from case to replay."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from killpoint.errors import CannotWork
from killpoint.judgement.replay import replay
from killpoint.runner.stage import Stage
from killpoint.scenario import Message, Receive, Scenario, Send, Simulated
from killpoint.search.case_run import CaseRun
from killpoint.search.schedule_run import search
from killpoint.search.simulated import Ask
from killpoint.targets.protocol import QueueShape, Target


def tells(target: Target, data: bytes) -> bytes:
    """Where it is, and of what."""
    return f"{target.name} {os.getpid()} ".encode() + data


def fails(target: Target, data: bytes) -> bytes:
    raise ValueError(f"no {data!r} in {target.name}")


def hangs(target: Target, data: bytes) -> bytes:
    while True:
        signal.pause()


@pytest.fixture(scope="module")
def stage():
    with Stage("refengine") as stage:
        yield stage


def test_a_function_is_called_in_a_process_of_its_own(stage: Stage) -> None:
    name, pid, data = stage.call(f"{__name__}:tells", b"this", 30.0).split()
    assert (name, data) == (b"refengine", b"this")
    assert int(pid) not in (os.getpid(), stage.zygote.pid)


def test_one_that_fails_says_why(stage: Stage) -> None:
    with pytest.raises(CannotWork, match="ValueError: no b'x' in refengine"):
        stage.call(f"{__name__}:fails", b"x", 30.0)


def test_one_that_hangs_is_ended(stage: Stage) -> None:
    with pytest.raises(CannotWork, match="no answer in 0 s"):
        stage.call(f"{__name__}:hangs", b"", 0.3)
    assert stage.zygote.descendants() == []


def test_a_violation_goes_from_the_case_to_a_file_and_back(tmp_path: Path) -> None:
    spec = "mutated:r5_no_fence_between_data_and_flag"
    shape = QueueShape(readers=1, chunk_bytes=80, chunks=2)
    steps = [Send([Message(repeat=2)]), Receive(2)]
    scenario = Scenario(
        "R5/data-before-flag", ["R5"], steps, shape=shape, simulated=Simulated("relaxed")
    )
    with Stage(spec) as stage:
        case_run = CaseRun(scenario.case, stage, seed=0, full=False, folder=tmp_path, target=spec)
        outcome = case_run.judge(lambda case_run: search(case_run, scenario, [Ask("delays")]))
    assert outcome.outcome == "violated"
    assert outcome.replay is not None
    again = replay(Path(outcome.replay))
    assert (again.status(), again.outcomes[0].cause) == (1, outcome.cause)
    elsewhere = replay(Path(outcome.replay), "refengine")
    assert elsewhere.status() in (0, 3)  # 3: its schedule does not fit there
