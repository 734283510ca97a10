"""The judges of a mailbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from killpoint.checkers.base import Checks
from killpoint.checkers.finding import Checker, Finding, Inconclusive, evidence, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.verdict import Violation

_TOLD_WITHIN = 2.0
"""Seconds: M2's."""


def every_letter_once(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """M1: what each poster posted is what was taken of it."""
    taken = [e for e in history.of("took") if e.text("outcome") == "ok"]
    if not taken:
        raise Inconclusive("no letter was taken")
    for poster in scenario.named(("posters",)):
        posted = [e.text("letter") for e in history.of("posts", role=poster)]
        got = [e.text("letter") for e in taken if e.text("letter").startswith(f"{poster} ")]
        if got != posted[: len(got)]:
            lost = next(
                letter for letter in posted if letter not in got[: posted.index(letter) + 1]
            )
            cause = f"letter {lost.split()[1]} of {poster} was posted and not taken in its turn"
            return Finding([Violation("lost", cause, evidence(history, taken))])
    return Finding(hangs(history)[:1], {"letters": len(taken)})


def death_is_told(_scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """M2: a call of the owner's that runs, or begins later, tells of a death in time."""
    death = history.first("exit")
    if death is None or death.number("signal", 0) != 9:
        raise Inconclusive("no poster was killed")
    told = [e for e in history.of("took") if e.text("outcome") == "peer-died"]
    limit = death.t + int(_TOLD_WITHIN * 1e9)
    if told and told[0].t <= limit + history.allowance(death.t, told[0].t):
        return Finding([], {"deaths": 1})
    cause = f"{death.text('target')} was killed, and the owner was not told within 2 s"
    return Finding([Violation("hang", cause, evidence(history, [death, *history.of("took")]))])


class MailboxChecks(Checks):
    """See the base class."""

    judges: ClassVar[Mapping[str, Checker]] = {"M1": every_letter_once, "M2": death_is_told}


CHECKS = MailboxChecks()
