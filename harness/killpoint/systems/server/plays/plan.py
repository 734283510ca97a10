"""The announcement of a check of a server: its plays, and about how long they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from killpoint.case import Case
from killpoint.durations import Expected
from killpoint.progress.text import span
from killpoint.scenario import AnyStep
from killpoint.systems.server import generated
from killpoint.systems.server.cases import IN_FULL
from killpoint.systems.server.plays.grid import FULL_PLAYS
from killpoint.systems.server.plays.named import PLAYS, NamedPlay
from killpoint.systems.server.program import ServerProgram
from killpoint.systems.server.steps import (
    ServerContinueLoad,
    ServerControl,
    ServerLine,
    ServerPhase,
    ServerStart,
    ServerStop,
    ServerWaitAlive,
    ServerWaitGone,
    ServerWaitIdle,
    ServerWaitRestarted,
    is_utility,
)
from killpoint.systems.server.target import build

_FORKED = 3.0
"""Seconds that a start from a zygote takes."""
_DIALOGUE = 18.0
"""Seconds that a generated dialogue takes, and the desertion after it."""
_AROUND = 2.0
"""Seconds of a play before its first step and after its last one."""
_USUALLY: tuple[tuple[type[AnyStep], float], ...] = (
    (ServerControl, 5.0),
    (ServerPhase, 2.0),
    (ServerLine, 1.0),
    (ServerWaitIdle, 8.0),
    (ServerStop, 1.0),
    (ServerWaitAlive, 3.0),
    (ServerWaitRestarted, 3.0),
    (ServerWaitGone, 5.0),
)
"""Seconds that steps take on a quiet machine, if nothing hangs."""


def told(resolved: str, cases: Sequence[Case], *, full: bool) -> str:
    """Return a sentence on the plays of these cases; empty if none of them plays a server."""
    asked = _Asked(resolved, cases, full=full)
    if not asked.cases:
        return ""
    return (
        f"{asked.program.name}: {_counted(asked.plays, 'play')}, one after another, for"
        f" {_counted(len(asked.cases), 'case')}: about {span(asked.seconds)} on a quiet machine of"
        " two cores; what is violated is played again before it is told"
    )


def expected(resolved: str, cases: Sequence[Case], *, full: bool) -> dict[str, Expected]:
    """Return the expected duration of each case, by id: its share of the play that it judges.

    A case that cannot be asked of this server takes no time.
    """
    return _Asked(resolved, cases, full=full).expected(cases)


class _Asked:
    """The plays that cases ask of a server, and what they take."""

    def __init__(self, resolved: str, cases: Sequence[Case], *, full: bool) -> None:
        self.program = build(resolved).server_program()
        judged = [case for case in cases if case.invariant not in self.program.unjudged]
        named = {each.name: each for each in (*PLAYS, *FULL_PLAYS) if _can(self.program, each)}
        sharing = Counter(case.play for case in judged if case.play in named)
        often = {
            name: IN_FULL if full and named[name].races else named[name].often for name in sharing
        }
        self._shares = {
            name: often[name] * _seconds(self.program, named[name]) / count
            for name, count in sharing.items()
        }
        drawn = {case.id for case in judged if _can_draw(self.program, case)}
        dialogues = generated.programs(full=full)
        a_start = _step_seconds(self.program, ServerStart())
        self._generated = dict.fromkeys(drawn, dialogues * (_AROUND + a_start + _DIALOGUE))
        self.cases = [case for case in judged if case.play in sharing or case.id in drawn]
        self.plays = sum(often.values()) + len(drawn) * dialogues
        self.seconds = sum(map(self._of, self.cases))

    def expected(self, cases: Sequence[Case]) -> dict[str, Expected]:
        found = dict.fromkeys((case.id for case in cases), 0.0)
        found |= {case.id: self._of(case) for case in self.cases}
        return {id: Expected(seconds, seconds) for id, seconds in found.items()}

    def _of(self, case: Case) -> float:
        return self._generated[case.id] if case.id in self._generated else self._shares[case.play]


def _can_draw(program: ServerProgram, case: Case) -> bool:
    """Return whether a case is of generated dialogues that the program can have."""
    topology = generated.TOPOLOGIES.get(case.id)
    return topology is not None and program.plays_in(topology)


def _can(program: ServerProgram, play: NamedPlay) -> bool:
    """Return whether the program can play it; else the case is unsupported at once."""
    again = any(isinstance(step, ServerWaitRestarted) for step in play.steps)
    paths = {step.path for step in play.steps if isinstance(step, ServerLine)}
    able = program.plays_in(play.topology) and paths <= program.lines.keys()
    able = able and (program.utility is not None or not any(map(is_utility, play.steps)))
    able = able and (program.asked_drain is not None or not play.asks_drain)
    return able and (program.survives or not again)


def _seconds(program: ServerProgram, play: NamedPlay) -> float:
    return _AROUND + sum(_step_seconds(program, step) for step in play.steps)


def _step_seconds(program: ServerProgram, step: AnyStep) -> float:
    if isinstance(step, ServerContinueLoad):
        return step.seconds
    if isinstance(step, ServerStart):
        forked = program.zygote is not None and not step.ordinary
        return _FORKED if forked else program.usual_start / 4
    return next((seconds for kind, seconds in _USUALLY if isinstance(step, kind)), 0.0)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
