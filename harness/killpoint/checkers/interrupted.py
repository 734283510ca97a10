"""R9: an exception between two steps leaves the operation done or not done, and nothing else."""

from __future__ import annotations

from killpoint.checkers.base import checks_of
from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Fault, Scenario
from killpoint.verdict import Violation

EXCEPTIONS = ("raise", "interrupt")
_CALLS = ("end", "sent", "got")


def check_r9_interrupted(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """R9: the struck call had its effect once, everywhere, or nowhere; all others go on as ever.

    An exception that the target caught and forgot was raised there all the same: then its call
    came back well, and has to have been done.
    """
    strikes = struck(scenario, history)
    checks = checks_of(scenario)
    found = hangs(history) or checks.unharmed(scenario, history) or _left(history, ledger)
    return Finding(found[:1], weighed(history, strikes, checks.call_ends))


def struck(scenario: Scenario, history: History) -> list[Event]:
    """The exceptions that were raised in the target's code.

    Raises:
        Inconclusive: fewer than the scenario has faults for, or none at all.
    """
    told = [s for s in scenario.steps if isinstance(s, Fault) and s.fault in EXCEPTIONS]
    strikes = list(history.of("raised"))
    if not strikes or len(strikes) < len(told):
        raise Inconclusive(f"{len(told)} exceptions were to strike, {len(strikes)} did")
    return strikes


def weighed(
    history: History, strikes: list[Event], call_ends: tuple[str, ...] = ()
) -> dict[str, int]:
    """Return the play's exceptions, and how many of them never came out of their calls."""
    came_out = sum(event.text("outcome") == "injected" for event in history.of(*_CALLS, *call_ends))
    return {"exceptions": len(strikes)} | ({} if came_out else {"swallowed": len(strikes)})


def _left(history: History, ledger: Ledger) -> list[Violation]:
    """Return a violation for a resource of a struck call that is still there after the end.

    Resources that the same story leaves without an exception are not the exception's.
    """
    more = ledger.beyond_usual()
    if not more:
        return []
    cause = (
        f"an exception struck {where_struck(history)}, and {', '.join(more)} stayed that the same"
    )
    cause += " steps do not leave without it"
    return [Violation("leak", cause, [*strikes_and(history, []), *ledger.lines()])]


def where_struck(history: History) -> str:
    """Return where exceptions were raised."""
    return ", ".join(f"{e.role} at {e.text('where')}" for e in history.of("raised"))


def strikes_and(history: History, events: list[Event]) -> list[str]:
    """Return the lines of the exceptions that were raised, and of these events, in order."""
    return evidence(history, sorted([*history.of("raised"), *events], key=lambda e: e.t))
