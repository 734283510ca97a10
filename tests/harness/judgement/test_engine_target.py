"""A stranger's engine is judged fairly, and each breakage of it is caught as what it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import broken_engines
import pytest

from killpoint.cases import select
from killpoint.runner.stage import Stage
from killpoint.search.case_run import CaseRun
from killpoint.verdict import CaseOutcome

EXAMPLES = Path(__file__).parents[2] / "examples"
_AT_ONCE = 5
HELD = (
    "E1/stopped-under-load",
    "E1/last-replica-dies",
    "E2/one-worker",
    "E2/tensor-parallel",
    "E2/data-parallel",
    "E3/one-of-two",
    "E4/stopped-worker",
    "E4/stopped-then-killed",
    "H6/generated",
    "H6/generated-deaths",
)
_OFTEN = ("SaysNothing", "ForgetsAtItsStop", "OneTooMany", "FailsAll", "AlwaysReady", "NeverAgain")
"""Breakages that are tried on every commit: of each invariant at least one."""


@pytest.fixture(autouse=True, scope="module")
def examples() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield


def _outcome(spec: str, case: str) -> CaseOutcome:
    (found,) = select([case])
    with Stage(spec) as stage:
        return CaseRun(case, stage, seed=0, full=False, folder=None).judge(found.run)


def _outcomes(asked: Sequence[tuple[str, str]]) -> list[CaseOutcome]:
    """Most of each play is waiting."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(_outcome, *zip(*asked, strict=True)))


def test_a_strangers_engine_is_judged_fairly(subtests: pytest.Subtests) -> None:
    for found in _outcomes([("socket_engine:EngineTarget", case) for case in HELD]):
        with subtests.test(found.id):
            assert (found.outcome, found.cause) == ("held", "")


def _caught(names: Sequence[str], subtests: pytest.Subtests) -> None:
    asked = [(f"broken_engines:TargetOf{name}", broken_engines.CAUGHT[name][0]) for name in names]
    for name, found in zip(names, _outcomes(asked), strict=True):
        with subtests.test(f"{name} by {found.id}"):
            assert found.outcome == "violated", found
            assert found.kind in broken_engines.CAUGHT[name][1].split(), found.cause


def test_breakages_are_caught_by_their_cases(subtests: pytest.Subtests) -> None:
    _caught(_OFTEN, subtests)


@pytest.mark.full
def test_all_other_breakages_are_caught_by_their_cases(subtests: pytest.Subtests) -> None:
    _caught([name for name in broken_engines.CAUGHT if name not in _OFTEN], subtests)
