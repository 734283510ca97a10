"""Unanswered starts on trial: played where the target is loaded, judged here."""

from __future__ import annotations

import msgspec

from killpoint.checkers.finding import Finding
from killpoint.checkers.wakes import Heard, woken
from killpoint.explore.trial import Trial
from killpoint.scenario import Scenario, Wakes, dump

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
        text = dump(msgspec.structs.replace(scenario, target=trial.target))
        told = "".join(f"# {line}\n" for line in [found.cause, "", *heard.lines])
        trial.convict(found, trial.keep_text(f"{text}\n{told}", trial.outcome.id))
