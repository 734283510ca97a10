"""The evidence of a play: whether its faults struck, who refused it, what it left."""

from __future__ import annotations

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Inconclusive
from killpoint.checkers.interrupted import EXCEPTIONS
from killpoint.errors import BadUsage
from killpoint.faults import FAULTS
from killpoint.history.event import Event
from killpoint.runner.points.point_guard import EXIT_FAULT
from killpoint.runner.stage import Play
from killpoint.scenario import NETWORK_FAULTS, AnyStep, Fault, Retry, Scenario
from killpoint.systems.registry import own_player_of
from killpoint.verdict import Violation

_SIGNALS = ("sigterm", "sigint")


class Unsupported(Exception):
    """The target cannot do what the case asks for."""


class UnableHere(Unsupported):
    """This machine does not permit what the case needs: no fault of the target's."""


def is_strike(step: AnyStep) -> bool:
    """Return whether a step is there for an exception's sake."""
    return isinstance(step, Retry) or (isinstance(step, Fault) and step.fault in EXCEPTIONS)


def leak_in(play: Play) -> Violation | None:
    """Return the violation of L1 in a play; None if there is none."""
    try:
        found = CHECKERS["L1"](play.scenario, play.history, play.ledger)
    except Inconclusive:
        return None
    return found.violations[0] if found.violations else None


def faults_struck(play: Play) -> bool | None:
    """Return whether each placed fault reached its point and acted; None: none was placed."""
    faults = [step for step in play.scenario.steps if isinstance(step, Fault)]
    whole = own_player_of(play.scenario) is not None  # where each fault is placed, and seen to act
    placed = [step for step in faults if step.at or whole or step.fault in NETWORK_FAULTS]
    if not placed:
        return None
    reached = {event.text("target") for event in play.history.of("reached")}
    ended = {e.text("target") for e in play.history.of("exit", "gone")}
    return not play.unreached and all(
        step.role in reached and (not FAULTS[step.fault].ends or step.role in ended)
        for step in placed
        if step.at
    )


def raise_if_refused(play: Play) -> None:
    """Raise if the machine or the target cannot be asked this, or its adapter is broken."""
    if play.unable:
        raise UnableHere(play.unable)
    for event in play.history.of("end", "cancel-unsupported", "lacking"):
        if event.kind != "end" or event.text("outcome") == "unsupported":
            raise Unsupported(event.text("error"))
        if event.text("outcome") == "adapter-fault":
            raise BadUsage(f"the adapter: {event.text('error')}")


def harness_fault(play: Play) -> str:
    """Return which step failed in the harness's own code, and how; empty if none did.

    What the others did after it is no evidence: they waited for a step that was never taken.
    """
    for event in play.history.of("end"):
        if event.text("outcome") == "harness-fault":
            return (
                f"{event.text('op')} of {event.role} failed in the harness's own code:"
                f" {event.text('error')}"
            )
    return ""


def unexpected(scenario: Scenario, event: Event) -> bool:
    """Return whether a role exited with a status that neither it nor the scenario had meant.

    A death by a signal that no fault sent is for the judges: it is the target's. So is the end of a
    role that was sent a signal it may handle.
    """
    told = [step for step in scenario.steps if isinstance(step, Fault)]
    if scenario.terminal and event.text("target") == scenario.roles()[0]:
        return False
    if any(s.fault in _SIGNALS and s.role == event.text("target") for s in told):
        return False
    exits = any(step.fault == "exit" and step.role == event.text("target") for step in told)
    allowed = {0, EXIT_FAULT} if exits else {0}
    return event.number("code", 0) not in allowed


def last_words(play: Play, event: Event) -> str:
    """Return how a role ended, with the last line of its standard error."""
    role = event.text("target")
    said = play.folder / f"{role}.err"
    lines = said.read_text("utf-8", "replace").strip().splitlines() if said.exists() else []
    last = f": {lines[-1]}" if lines else ""
    return f"{role} ended with status {event.number('code')}{last}"
