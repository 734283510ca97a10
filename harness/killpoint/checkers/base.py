"""The base class of a system's judges: what invariants of every system ask of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from killpoint.checkers.finding import Checker, Inconclusive, evidence, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.registry import part
from killpoint.verdict import Violation


class Checks:
    """Judges of one system. Subclass it in the package ``checks``, as ``CHECKS``."""

    judges: ClassVar[Mapping[str, Checker]] = {}
    """By invariant id: those that this system alone has, or judges in its own way."""
    call_ends: ClassVar[tuple[str, ...]] = ()
    """Kinds of events by which its calls end, beside those of a queue."""

    def judge(self, id: str) -> Checker | None:
        """Return the system's own judge of an invariant."""
        return self.judges.get(id)

    def harm(self, scenario: Scenario, history: History, ledger: Ledger) -> list[Violation]:
        """Return what the target's own parties lost to a stranger (S3, S4)."""
        del scenario, ledger
        return hangs(history)

    def unharmed(self, scenario: Scenario, history: History) -> list[Violation]:
        """Return what differs from a play in which the struck calls were made, or were not (R9).

        Raises:
            Inconclusive: no exception is placed in this system.
        """
        raise Inconclusive(f"no exception is placed in a {scenario.system()}")

    def may_listen_at(self, scenario: Scenario, history: History) -> str:
        """Return the address that a party was asked to listen at, empty if none was (S1)."""
        del scenario, history
        return ""

    def sent_to_strangers(self, history: History) -> list[Violation]:
        """Return what a stranger was sent that is for peers, though no message was read (S3)."""
        del history
        return []


def checks_of(scenario: Scenario) -> Checks:
    """Return the judges of the system that a scenario is of."""
    return part(scenario.system(), "checks").CHECKS


def failed_calls(history: History, kinds: Iterable[str]) -> list[Violation]:
    """Return the first call that failed after a stranger came, by the kinds of calls' ends."""
    for event in history.of(*kinds):
        if event.text("outcome") != "ok":
            what = f"{event.role} failed ({event.kind}): {event.text('outcome')}"
            return [Violation("lost", f"after a stranger came, {what}", evidence(history, [event]))]
    return []


def failed_orders(history: History) -> list[Violation]:
    """Return the first order, send or receive that failed after a stranger came."""
    for event in history.of("end", "sent", "got"):
        if event.text("outcome") != "ok":
            what = event.text("op") or event.kind
            said = event.text("error") or event.text("outcome")
            cause = f"after a stranger came, {event.role} failed in {what}: {said}"
            return [Violation("lost", cause, evidence(history, [event]))]
    return []
