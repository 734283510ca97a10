"""A bug planted in the HTTP server is convicted by a generated dialogue (H7)."""

from __future__ import annotations

from pathlib import Path

import pytest
from served import served

from killpoint.cases import SERVER_CASES
from killpoint.runner.stage import Stage
from killpoint.search.case_run import CaseRun
from killpoint.targets.registry import resolve


@pytest.mark.full
def test_a_finish_that_hides_a_stop_string_is_convicted(tmp_path: Path) -> None:
    spec = served("server_length_hides_a_stop_string_at_the_limit", tmp_path)
    case = next(case for case in SERVER_CASES if case.id == "H7/generated")
    with Stage(resolve(spec)) as stage:
        outcome = CaseRun(case.id, stage, seed=5, full=False, folder=None).judge(case.run)
    assert (outcome.outcome, outcome.kind) == ("violated", "wrong-data"), outcome.cause
    assert "finish_reason is 'length', not 'stop'" in outcome.cause
