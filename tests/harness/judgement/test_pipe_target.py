"""A stranger's pipe is judged fairly, and each breakage of it is caught as what it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import broken_tensors
import msgspec
import pytest

from killpoint.cases import select
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import Scenario
from killpoint.search.case_run import CaseRun
from killpoint.verdict import CaseOutcome

EXAMPLES = Path(__file__).parents[2] / "examples"

HELD = (
    "K1/every-dtype-and-layout",
    "K1/eight-bit-floats",
    "K1/every-shape",
    "K1/large-and-none",
    "K2/memory-is-bounded",
    "K2/send-fails-once",
    "K2/empty-after-a-death",
    "K3/send-fails-once",
    "K3/exception-in-a-carrier",
    "K4/killed-while-the-other-sends",
    "K4/one-of-three-killed",
    "K4/killed-in-any-call",
    "K5/overwritten-after-send",
    "K6/impossible-shape",
    "K6/huge",
    "K7/both-directions-at-once",
    "K7/ring-receives-first",
    "L1/pipe-killed-then-next-start",
)


class Broken:
    """Plays every scenario on one of the broken pipes."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage = stage
        self._name = name

    def play(self, scenario: Scenario) -> Play:
        assert scenario.pipe is not None
        pipe = msgspec.structs.replace(scenario.pipe, transport=self._name)
        return self._stage.play(msgspec.structs.replace(scenario, pipe=pipe))

    def forget(self, play: Play) -> None:
        self._stage.forget(play)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("broken_tensors:BrokenTarget") as made:
            yield made


def outcome(stage: Stage, name: str, case: str) -> CaseOutcome:
    (found,) = select([case])
    case_run = CaseRun(case, Broken(stage, name), seed=0, full=False, folder=None)
    return case_run.judge(found.run)


@pytest.mark.parametrize("case", HELD)
def test_a_strangers_pipe_is_judged_fairly(stage: Stage, case: str) -> None:
    found = outcome(stage, "", case)
    assert (found.outcome, found.cause) == ("held", "")
    assert found.runs


_AS_A_MUTANT = (
    "DropsNone",
    "TakesItsTime",
    "OneThreadForAll",
    "TooLargeForEver",
    "NeverEmpty",
    "LosesTheError",
    "WaitsForTheDead",
)
"""Breakages that hang, and that a mutant of the reference has, too: each hang is waited out."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name in _AS_A_MUTANT else ())
        for name in broken_tensors.CAUGHT
    ],
)
def test_a_breakage_is_caught_by_its_case(stage: Stage, name: str) -> None:
    case, kinds = broken_tensors.CAUGHT[name]
    found = outcome(stage, name, case)
    assert found.outcome == "violated", found
    assert found.kind in kinds.split(), found.cause
