"""The run of a case of unanswered starts: played where the target is loaded, judged here."""

from __future__ import annotations

import msgspec

from killpoint.checkers.finding import Finding
from killpoint.scenario import Scenario, Wakes
from killpoint.search.case_run import CaseRun
from killpoint.systems.coordinator.checks.wakeups import Heard, check_request_wakes_all

_WHERE = "killpoint.systems.coordinator.unanswered_start_search:answer"
_WITHIN = 60.0
_DECODER = msgspec.msgpack.Decoder(Heard)  # made once: see killpoint.scenario.file


def wake_twice(case_run: CaseRun, scenario: Scenario) -> None:
    """Play it and judge it.

    Raises:
        Violated: an engine was not woken.
        Unsupported: nothing can be called here.
    """
    wakes = scenario.wakes or Wakes()
    said = case_run.call(_WHERE, msgspec.msgpack.encode(wakes), _WITHIN)
    heard = _DECODER.decode(said)
    case_run.count(Finding([], {"second requests": 1}))
    violation = check_request_wakes_all(heard)
    if violation is not None:
        found = msgspec.structs.replace(violation, evidence=heard.lines)
        text = case_run.kept.replay_of(scenario, found.cause)
        told = "".join(f"# {line}\n" for line in ["what happened:", *heard.lines])
        case_run.fail(found, case_run.kept.text(f"{text}\n{told}", case_run.outcome.id))
