"""A step that fails in the harness's own code is no evidence, whatever others waited for."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from killpoint.cases import select
from killpoint.runner import payload
from killpoint.runner.driver import NotConnected, of_harness_alone
from killpoint.runner.stage import Stage
from killpoint.scenario import Receive, Send, Wait
from killpoint.search.case_run import CaseRun
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario, small
from killpoint.targets.malformed_frames import fuzzed
from killpoint.verdict import CaseOutcome

EXAMPLES = Path(__file__).parents[2] / "examples"


def judged(target: str, threads: int) -> CaseOutcome:
    steps = [Send([small(9)]), Receive(9, threads=threads), Wait(within=5.0)]
    with Stage(target) as stage:
        case_run = CaseRun("Q1/x", stage, seed=0, full=False, folder=None)
        return case_run.judge(lambda it: it.play(queue_scenario("Q1/x", *OPEN_QUEUE, *steps)))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_play_in_which_the_harness_failed_convicts_nobody(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    outcome = judged("faulty_harness:Queue", threads)
    assert outcome.outcome == "inconclusive"
    assert outcome.by_harness
    assert re.match("receive of reader-. failed in the harness's own code: Type", outcome.cause)
    assert judged("pipe_queue:PipeTarget", threads).outcome == "held"


def _raised(act: Callable[[Any], object], given: object) -> Exception:
    """What a call raises, without this test's own frame."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 # of any kind
        act(given)
    error = raised.value
    assert error.__traceback__ is not None
    return error.with_traceback(error.__traceback__.tb_next)


class _Foreign:
    """Code of somebody else's, which the harness calls."""

    @property
    def dtype(self) -> object:
        raise KeyError("it has none")


def test_an_error_is_the_harness_s_if_no_other_code_had_a_part_in_it() -> None:
    assert of_harness_alone(_raised(payload.checksum, None))
    assert of_harness_alone(_raised(json.loads, "{"))
    assert not of_harness_alone(_raised(fuzzed, None)), "an adapter has part in what it raises"
    assert not of_harness_alone(_raised(lambda it: it.dtype, _Foreign()))


def test_what_the_machine_or_a_step_refuses_is_an_answer() -> None:
    refused = _raised(subprocess.Popen, ["/nowhere/at/all"])
    assert isinstance(refused, OSError)
    told: Future[None] = Future()
    told.set_exception(NotConnected("client is not connected"))
    on_purpose = _raised(partial(payload._explode, 0), b"")
    assert isinstance(on_purpose, payload.Undecodable)
    for error in (refused, _raised(Future.result, told), on_purpose):
        assert not of_harness_alone(error)


@pytest.mark.parametrize("case", ["R7/fill-raises", "R7/decode-raises"])
def test_what_a_driver_raises_on_purpose_is_no_fault_of_its_own(case: str) -> None:
    with Stage("refengine") as stage:
        case_run = CaseRun(case, stage, seed=0, full=False, folder=None)
        [found] = select([case])
        assert case_run.judge(found.run).outcome == "held"
