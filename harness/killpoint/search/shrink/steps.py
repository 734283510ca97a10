"""Fewer steps: any that is not part of the opening may go, if the rest still makes sense."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import msgspec

from killpoint.scenario import (
    AnyStep,
    Attach,
    Barrier,
    BlocksReceive,
    Broadcast,
    Cancel,
    Close,
    Drop,
    Exit,
    Fault,
    Gather,
    GroupRejoin,
    Join,
    Leave,
    Make,
    PipeClose,
    PipeMeet,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Ready,
    Receive,
    ReceiveFrom,
    Scenario,
)
from killpoint.search.shrink.attempt import fewest
from killpoint.search.shrink.message_balance import no_worse, owed
from killpoint.targets.shapes import GroupShape

_OPENING = (Make, Attach, Ready, Join, PipeOpen)
_COLLECTIVE = (Barrier, Broadcast, Gather)
_ENDS = (Close, Drop, Exit, Leave, Cancel, PipeClose)
_ENDLESS = (Receive, ReceiveFrom, PipeReceive, BlocksReceive)
_UNDONE = {"stop": "continue", "cut": "heal", "half-open": "heal", "delay": "heal"}
"""Faults that hold a role up until another one lets it go on."""


def fewer_steps(scenario: Scenario) -> Generator[Scenario, bool]:
    """Steps, as few as still fail; long runs of them are tried first."""
    last = len(scenario.steps) - 1
    stay = {i for i, step in enumerate(scenario.steps) if i == last or _stays(scenario, step)}
    droppable = [index for index in range(len(scenario.steps)) if index not in stay]

    def build(kept: Sequence[int]) -> Scenario | None:
        left = [step for i, step in enumerate(scenario.steps) if i in stay or i in set(kept)]
        smaller = msgspec.structs.replace(scenario, steps=left)
        return smaller if makes_sense(smaller, scenario) else None

    yield from fewest(droppable, build)


def makes_sense(smaller: Scenario, than: Scenario) -> bool:
    """Return whether a sound target can be asked this: it could hang or lose no more."""
    if not no_worse(smaller, than) or held_up(smaller) - held_up(than):
        return False
    return not waits_for_an_end(than) or _ends(smaller) == _ends(than)


def held_up(scenario: Scenario) -> set[tuple[str, str]]:
    """(role, fault) of each fault that is still in force at the end."""
    out: set[tuple[str, str]] = set()
    for step in scenario.steps:
        if isinstance(step, Fault):
            out -= {(step.role, done) for done, undo in _UNDONE.items() if undo == step.fault}
            out |= {(step.role, step.fault)} if step.fault in _UNDONE else set()
    return out


def waits_for_an_end(scenario: Scenario) -> bool:
    """Return whether some call has no deadline and only a party's end can let it return."""
    if isinstance(scenario.subject(), GroupShape):
        return any(isinstance(s, _COLLECTIVE) and not _of_all(scenario, s) for s in scenario.steps)
    endless = any(isinstance(step, _ENDLESS) and step.timeout is None for step in scenario.steps)
    filled = any(isinstance(step, PipeSend) and step.timeout is None for step in scenario.steps)
    counts = owed(scenario).values()
    return (endless and min(counts, default=0) < 0) or (filled and max(counts, default=0) > 0)


def _ends(scenario: Scenario) -> list[AnyStep]:
    return [step for step in scenario.steps if isinstance(step, (*_ENDS, Fault))]


def _stays(scenario: Scenario, step: AnyStep) -> bool:
    """Return whether a step stays: the opening, and what ranks do together with another step.

    So does the wait for what a rank does beside its first thread: no other step shows its end.
    """
    if isinstance(step, (*_OPENING, PipeMeet, GroupRejoin)):
        return True
    return isinstance(step, _COLLECTIVE) and not _of_all(scenario, step)


def _of_all(scenario: Scenario, step: Barrier | Broadcast | Gather) -> bool:
    return set(scenario.named(step.roles)) == set(scenario.roles())
