"""R9: an exception between two steps leaves the operation done or not done, and nothing else."""

from __future__ import annotations

from killpoint.checkers.delivery import Got, got, mismatches, sent, torn
from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.checkers.group_record import ENDS
from killpoint.checkers.interrupted_group import group_unharmed
from killpoint.checkers.interrupted_pipe import pipe_unharmed
from killpoint.checkers.pipe_record import ENDS as OF_PIPES
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Close, Drop, Exit, Fault, Scenario
from killpoint.verdict import Violation

EXCEPTIONS = ("raise", "interrupt")
_CALLS = ("end", "sent", "got", *ENDS.values(), *OF_PIPES.values())
_ORDERS = ("make", "attach", "ready", "close", "drop")
_ENDS_WELL = ("ok", "injected")
_STOPS = (*_ENDS_WELL, "closed", "timeout")
"""Outcomes that a reader's calls may have: it reads until there is nothing more to come."""


def whole_or_not_at_all(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """R9: the struck call had its effect once, everywhere, or nowhere; all others go on as ever.

    An exception that the target caught and forgot was raised there all the same: then its call
    came back well, and has to have been done.
    """
    strikes = struck(scenario, history)
    unharmed = group_unharmed if scenario.group else queue_unharmed
    unharmed = pipe_unharmed if scenario.pipe else unharmed
    found = hangs(history) or unharmed(scenario, history) or _left(history, ledger)
    return Finding(found[:1], weighed(history, strikes))


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


def weighed(history: History, strikes: list[Event]) -> dict[str, int]:
    """Return the play's exceptions, and how many of them never came out of their calls."""
    came_out = sum(event.text("outcome") == "injected" for event in history.of(*_CALLS))
    return {"exceptions": len(strikes)} | ({} if came_out else {"swallowed": len(strikes)})


def queue_unharmed(scenario: Scenario, history: History) -> list[Violation]:
    """Return the differences from a queue in which the struck calls were made, or were not."""
    readers = scenario.readers()
    return (
        _failed_orders(history)
        or _failed_sends(history)
        or [v for reader in readers for v in _failed_receives(history, reader)]
        or [v for reader in readers for v in _arrivals(scenario, history, reader)]
        or _half_sent(scenario, history)
    )


def _failed_orders(history: History) -> list[Violation]:
    """A party's making, coming or going that failed by itself."""
    for event in history.of("end"):
        if event.text("op") in _ORDERS and event.text("outcome") not in _ENDS_WELL:
            call = f"{event.role}'s {event.text('op')}"
            return [_afterwards(history, call, event)]
    return []


def _left(history: History, ledger: Ledger) -> list[Violation]:
    """Return a violation for a resource of a struck call that is still there after the end.

    Resources that the same story leaves without an exception are not the exception's.
    """
    more = ledger.beyond_usual()
    if not more:
        return []
    cause = f"an exception struck {_where(history)}, and {', '.join(more)} stayed that the same"
    cause += " steps do not leave without it"
    return [Violation("leak", cause, [*_shown(history, []), *ledger.lines()])]


def _failed_sends(history: History) -> list[Violation]:
    for message in sent(history):
        if message.ended is not None and message.ended.text("outcome") not in _ENDS_WELL:
            return [_afterwards(history, f"the send of message {message.seq}", message.ended)]
    return []


def _failed_receives(history: History, reader: str) -> list[Violation]:
    for call in got(history, reader):
        if call.ended is not None and call.outcome not in _STOPS:
            return [_afterwards(history, f"a receive of {reader}", call.ended)]
    return []


def _afterwards(history: History, call: str, event: Event) -> Violation:
    how = f"{event.text('outcome')} {event.text('error')}".strip()
    cause = f"{call} failed after an exception had struck {_where(history)}: {how}"
    return Violation("lost", cause, _shown(history, [event]))


def _arrivals(scenario: Scenario, history: History, reader: str) -> list[Violation]:
    for who, _, call in torn(history, [reader], scenario.shape.chunk_bytes):
        cause = f"{who} received message {call.seq} torn or altered"
        return [Violation("wrong-data", cause, _shown(history, _events(call)))]
    leaves = _leaves(scenario, reader)
    return [
        Violation(found.kind, f"{found.cause} (struck: {_where(history)})", found.evidence)
        for found in mismatches(history, reader, tail_may_miss=leaves)
    ]


def _half_sent(scenario: Scenario, history: History) -> list[Violation]:
    """A struck send is delivered to every reader or to none."""
    staying = [reader for reader in scenario.readers() if not _leaves(scenario, reader)]
    for message in sent(history):
        if not message.uncertain or message.ended is None:
            continue
        arrived = {
            reader: [c for c in got(history, reader) if c.outcome == "ok" and c.seq == message.seq]
            for reader in staying
        }
        have = [reader for reader in staying if arrived[reader]]
        lack = [reader for reader in staying if not arrived[reader]]
        if have and lack:
            cause = (
                f"message {message.seq}, whose send an exception struck at {_where(history)},"
                f" reached {', '.join(have)} and never {', '.join(lack)}: half done"
            )
            lines = [e for reader in have for call in arrived[reader] for e in _events(call)]
            return [Violation("lost", cause, _shown(history, [message.ended, *lines]))]
    return []


def _leaves(scenario: Scenario, reader: str) -> bool:
    """Return whether the reader leaves while the others stay."""
    steps = [step for step in scenario.steps if isinstance(step, (Close, Drop, Exit))]
    return any(reader in scenario.named(step.roles) for step in steps)


def _where(history: History) -> str:
    return ", ".join(f"{e.role} at {e.text('where')}" for e in history.of("raised"))


def _events(call: Got) -> list[Event]:
    return [call.began] if call.ended is None else [call.began, call.ended]


def _shown(history: History, events: list[Event]) -> list[str]:
    return evidence(history, sorted([*history.of("raised"), *events], key=lambda e: e.t))
