"""Bugs planted in the HTTP server are convicted by a generated dialogue (H7)."""

from __future__ import annotations

from pathlib import Path

import pytest
from served import served

from killpoint.cases import SERVER_CASES
from killpoint.runner.stage import Stage
from killpoint.search.case_run import CaseRun
from killpoint.targets.registry import resolve
from killpoint.verdict import CaseOutcome


def _judged(name: str, folder: Path) -> CaseOutcome:
    case = next(case for case in SERVER_CASES if case.id == "H7/generated")
    with Stage(resolve(served(name, folder))) as stage:
        return CaseRun(case.id, stage, seed=5, full=False, folder=None).judge(case.run)


@pytest.mark.full
def test_a_finish_that_hides_a_stop_string_is_convicted(tmp_path: Path) -> None:
    outcome = _judged("server_length_hides_a_stop_string_at_the_limit", tmp_path)
    assert (outcome.outcome, outcome.kind) == ("violated", "wrong-data"), outcome.cause
    assert "finish_reason is 'length', not 'stop'" in outcome.cause


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        "server_hang_up_after_the_first_choice_goes_unheard",
        "server_prompts_before_a_refused_one_are_computed",
    ],
)
def test_prompts_that_are_computed_for_nobody_are_convicted(name: str, tmp_path: Path) -> None:
    outcome = _judged(name, tmp_path)
    assert (outcome.outcome, outcome.kind) == ("violated", "leak"), outcome.cause
    assert "metrics still count requests" in outcome.cause
