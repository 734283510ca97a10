"""A target without deadlines is judged by what it does, and never for what it does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from killpoint.cases import select
from killpoint.checkers import CHECKERS
from killpoint.runner.stage import Stage
from killpoint.scenario import Receive, Send, Wait
from killpoint.search.case_run import CaseRun
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario, small
from killpoint.verdict import CaseOutcome

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def examples_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def judged(target: str, *steps: Any) -> CaseOutcome:
    with Stage(f"timeless_pipes:{target}") as stage:
        case_run = CaseRun("R3/x", stage, seed=0, full=False, folder=None)

        def run(case_run: CaseRun) -> None:
            case_run.play(queue_scenario("R3/x", *OPEN_QUEUE, *steps))

        return case_run.judge(run)


def test_a_timeout_that_bounds_a_healthy_call_is_left_out() -> None:
    steps = [Send([small(9)], timeout=9.0), Receive(9, timeout=9.0), Wait(within=20.0)]
    with Stage("timeless_pipes:TakesNoDeadline") as stage:
        play = stage.play(queue_scenario("R3/x", *OPEN_QUEUE, *steps))
        found = CHECKERS["R3"](play.scenario, play.history, play.ledger)
        assert (found.violations, found.counts["messages"]) == ([], 18)
        asked = [*play.history.of("send"), *play.history.of("receive")]
        asked += [event for event in play.history.of("begin") if event.text("op") == "ready"]
        assert len(asked) == 9 + 18 + 3
        assert [event.data["timeout"] for event in asked] == [None] * len(asked)
        stage.forget(play)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_the_target_refuses_is_unsupported_and_no_loss(threads: int) -> None:
    send = Send([small(9)], timeout=9.0, threads=threads)
    outcome = judged("PromisesDeadlines", send, Wait(within=20.0))
    assert (outcome.outcome, outcome.cause) == ("unsupported", "it has no deadlines")


def test_a_handshake_that_nobody_comes_to_is_judged_by_its_deadline_only() -> None:
    """Without one it may wait for ever, as long as nobody is gone."""
    assert "deadlines" in select(["Q10/nobody-comes"])[0].needs
    assert "deadlines" not in select(["Q10/reader-dies-before-attaching"])[0].needs
