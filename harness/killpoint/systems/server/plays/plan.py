"""The announcement of a check of a server: its plays, and about how long they take."""

from __future__ import annotations

from collections.abc import Sequence

from killpoint.case import Case
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
    program = build(resolved).server_program()
    cases = [case for case in cases if case.invariant not in program.unjudged]
    asked = {case.play for case in cases}
    plays = [each for each in (*PLAYS, *FULL_PLAYS) if each.name in asked and _can(program, each)]
    often = {each.name: IN_FULL if full and each.races else each.often for each in plays}
    drawn = [case for case in cases if _can_draw(program, case)]
    if not (plays or drawn):
        return ""
    dialogues = len(drawn) * generated.programs(full=full)
    seconds = sum(often[each.name] * _seconds(program, each) for each in plays)
    seconds += dialogues * (_AROUND + _step_seconds(program, ServerStart()) + _DIALOGUE)
    mine = [*drawn, *(case for case in cases if case.play in often)]
    count = _counted(sum(often.values()) + dialogues, "play")
    return (
        f"{program.name}: {count}, one after another, for"
        f" {_counted(len(mine), 'case')}: about {span(seconds)} on a quiet machine of two cores;"
        " what is violated is played again before it is told"
    )


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
