"""Unanswered starts on trial: played where the target is loaded, judged here."""

from __future__ import annotations

import msgspec

from killpoint.checkers.finding import Finding
from killpoint.checkers.wakes import Heard, woken
from killpoint.explore.trial import Trial
from killpoint.scenario import Scenario, Wakes

_WHERE = "killpoint.explore.wakes:answer"
_WITHIN = 60.0
_DECODER = msgspec.msgpack.Decoder(Heard)  # made once: see killpoint.scenario.file


def wake_twice(trial: Trial, scenario: Scenario) -> None:
    """Play it and judge it.

    Raises:
        Violated: somebody was not woken.
        Unsupported: nothing can be called here.
    """
    wakes = scenario.wakes or Wakes()
    said = trial.call(_WHERE, msgspec.msgpack.encode(wakes), _WITHIN)
    heard = _DECODER.decode(said)
    trial.count(Finding([], {"second requests": 1}))
    violation = woken(heard)
    if violation is not None:
        found = msgspec.structs.replace(violation, evidence=heard.lines)
        text = trial.replay_of(scenario, found.cause)
        told = "".join(f"# {line}\n" for line in ["what happened:", *heard.lines])
        trial.convict(found, trial.keep_text(f"{text}\n{told}", trial.outcome.id))
