"""Measures what faults do to whole servers: every fault on every server, in the same minutes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol

import msgspec

from killpoint.bench import machine
from killpoint.bench.machine import Machine
from killpoint.bench.recovery.aftermath import Aftermath, Left, aftermath
from killpoint.bench.recovery.faults import Row, scenario
from killpoint.checkers.finding import Inconclusive
from killpoint.history.record import History
from killpoint.progress.counting import Tell
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import Scenario
from killpoint.systems.server.record import life

SCHEMA = 1


class Server(msgspec.Struct, frozen=True):
    """A server that is measured."""

    spec: str
    """Spec of the server, as it was asked for."""
    name: str
    version: str
    notes: list[str] = []


class Measured(msgspec.Struct, frozen=True):
    """One fault on one server."""

    server: str
    """The spec of the server."""
    fault: str
    """The name of the row."""
    round: int
    seconds: float
    """Duration of the play."""
    after: Aftermath | None
    why: str = ""
    """Reason why there is no result: the server lacks the part, or the fault did not strike."""


class Recovery(msgspec.Struct, frozen=True):
    """A whole run, as it is stored."""

    machine: Machine
    servers: list[Server]
    measured: list[Measured]
    asked: int
    """Number of plays that were planned."""
    schema: int = SCHEMA

    def of(self, server: str, fault: str) -> list[Measured]:
        """The rounds of a fault on a server."""
        return [m for m in self.measured if (m.server, m.fault) == (server, fault)]

    def faults(self) -> list[str]:
        """Return the names of the faults that were measured, in their order."""
        return list(dict.fromkeys(each.fault for each in self.measured))

    def failures(self) -> list[str]:
        """Return what could have been measured and was not, with the reasons."""
        stalled = [m for m in self.measured if m.after is None and not m.why.startswith(LACKS)]
        missing = self.asked - len(self.measured)
        told = [f"{each.fault} on {each.server}: {each.why}" for each in stalled]
        return told + [f"{missing} were not begun: it was interrupted"] * (missing > 0)


class Player(Protocol):
    """Runner of the plays on one server: a :class:`killpoint.runner.stage.Stage`."""

    def __enter__(self) -> Player: ...

    def __exit__(self, *_: object) -> None: ...

    def play(self, scenario: Scenario) -> Play:
        """Play it."""
        ...

    def forget(self, play: Play) -> None:
        """Remove its record."""
        ...


LACKS = "it has no such thing: "
"""Prefix of the reason where the server lacks what a play needs."""


def measure(
    servers: Sequence[tuple[Server, str]],
    rows: Sequence[Row],
    rounds: int,
    seed: int,
    tell: Tell,
    opened: Callable[[str], Player] = Stage,
) -> Recovery:
    """Measure every fault on every server, so many times.

    Args:
        servers: each with its resolved spec.
    """
    found = machine.look()
    measured: list[Measured] = []
    total = len(servers) * len(rows) * rounds
    with ExitStack() as stack:
        stages = {
            server.spec: stack.enter_context(opened(resolved)) for server, resolved in servers
        }
        order = [(n, row, spec) for n in range(rounds) for row in rows for spec in stages]
        try:
            for count, row, spec in order:
                tell(f"{row.name} on {spec}", len(measured), total)
                measured.append(_measured(stages[spec], spec, row, count, seed + count))
        except (KeyboardInterrupt, SystemExit):
            tell("interrupted: what was measured by now is told")
    return Recovery(found, [server for server, _ in servers], measured, total)


def _measured(player: Player, spec: str, row: Row, count: int, seed: int) -> Measured:
    began = time.monotonic()
    play = player.play(scenario(row, seed))
    try:
        after, why = _told(play)
    finally:
        player.forget(play)
    return Measured(spec, row.name, count, round(time.monotonic() - began, 1), after, why)


def _told(play: Play) -> tuple[Aftermath | None, str]:
    why = why_not(play)
    if why:
        return None, why
    try:
        return aftermath(life(play.history), left_of(play.history)), ""
    except Inconclusive as doubt:
        return None, str(doubt)


def why_not(play: Play) -> str:
    """Return why a play has no result; empty: it has one."""
    lacking = next(iter(play.history.of("lacking")), None)
    if lacking is not None:
        return LACKS + lacking.text("error")
    return play.unable or play.stalled or "; ".join(play.unreached)


def left_of(history: History) -> Left:
    """Return what the last look saw left; nothing, if everything had gone before."""
    looks = list(history.of("looked-on"))
    if not looks:
        return Left()
    seen = looks[-1]
    return Left(len(seen.items("left")), seen.number("shm", 0), seen.number("files", 0))
