"""A stranger's process group is judged fairly, and each breakage of it is caught as what it is."""

from __future__ import annotations

from pathlib import Path

import broken_groups
import pytest

from killpoint.judgement.judge import judge

EXAMPLES = Path(__file__).parents[2] / "examples"

HELD = (
    "G1/all-to-all",
    "G1/broadcasts",
    "G1/gathers",
    "G1/lanes-apart",
    "G1/eight-ranks",
    "G2/large-objects",
    "G3/absent-rank",
    "G3/dead-before",
    "G3/dead-while-it-waits",
    "G4/host-leaves-after-broadcast",
    "G4/host-killed-idle",
    "G4/cut-3s-loses-nothing",
    "G5/clock-forward",
    "G5/clock-jumps-in-barrier",
    "G5/ipv6-host",
)


@pytest.fixture(autouse=True)
def examples_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def test_a_strangers_group_is_judged_fairly() -> None:
    judgement = judge("pipe_group:GroupTarget", [*HELD, "R3", "Q6"])
    cases = {case.id: case for verdict in judgement.verdicts for case in verdict.cases}
    held = {id: f"{cases[id].outcome} {cases[id].cause}".rstrip() for id in HELD}
    assert held == dict.fromkeys(HELD, "held")
    assert all(cases[id].runs for id in HELD)
    words = {verdict.id: verdict.verdict for verdict in judgement.verdicts}
    assert (words["R3"], words["Q6"]) == ("unsupported", "unsupported")


_OFTEN = ("LosesOne", "KeepsTheDeathToItself", "ReadsTheWall")
"""Breakages that are looked for in each run of the tests."""


@pytest.mark.parametrize(
    "name",
    [
        name if name in _OFTEN else pytest.param(name, marks=pytest.mark.full)
        for name in broken_groups.CAUGHT
    ],
)
def test_a_breakage_is_caught_by_its_case(name: str) -> None:
    case, kinds = broken_groups.CAUGHT[name]
    judgement = judge(f"broken_groups:{name}", [case], jobs=1, confirms=False)
    outcome = judgement.verdicts[0].cases[0]
    assert outcome.outcome == "violated", outcome
    assert outcome.kind in kinds.split(), outcome.cause
