"""Messages owed to each reader at the end: a smaller scenario must not make the balance worse.

A scenario that asks for more than is sent hangs on any target, and one that asks for less than is
sent leaves messages behind: either would be a failure of the scenario's own.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from killpoint.scenario import (
    AnyStep,
    BlocksReceive,
    BlocksSend,
    PipeReceive,
    PipeSend,
    Receive,
    ReceiveFrom,
    RingRead,
    RingWrite,
    Scenario,
    Send,
    SendTo,
)

Flow = tuple[str, str, str]
"""Kind of the messages, their sender, and their receiver."""


def owed(scenario: Scenario) -> Counter[Flow]:
    """Messages that each reader is sent and does not ask for; below zero if it asks for more."""
    out: Counter[Flow] = Counter()
    for step in scenario.steps:
        for flow, count in _moved(scenario, step):
            out[flow] += count
    return out


def no_worse(smaller: Scenario, than: Scenario) -> bool:
    """Return whether no reader is owed more, or asks for more, than in the larger scenario."""
    was, now = owed(than), owed(smaller)
    flows = _flows(smaller)
    return all(min(0, was[flow]) <= now[flow] <= max(0, was[flow]) for flow in flows)


def settled(scenario: Scenario, than: Scenario) -> Scenario:
    """The scenario with as many receives less as messages were taken from the one it came from.

    The last ones are dropped. Where readers receive together and are owed differently that
    cannot be done: the caller looks with :func:`no_worse`.
    """
    was, now = owed(than), owed(scenario)
    missing = {flow: was[flow] - now[flow] for flow in _flows(scenario)}
    steps: list[AnyStep] = []
    for step in reversed(scenario.steps):
        kept = _fewer(scenario, step, missing)
        steps += [] if kept is None else [kept]
    return msgspec.structs.replace(scenario, steps=steps[::-1])


def _fewer(scenario: Scenario, step: AnyStep, missing: dict[Flow, int]) -> AnyStep | None:
    """A receiving step with fewer receives, None if none is left; any other as it is."""
    if not isinstance(step, Receive | ReceiveFrom | RingRead | PipeReceive):
        return step
    flows = [flow for flow, _ in _moved(scenario, step)]
    count = 1 if isinstance(step, RingRead) else step.count
    cut = min([count, *(max(0, missing.get(flow, 0)) for flow in flows)])
    for flow in flows:
        missing[flow] -= cut
    if cut == count:
        return None
    return msgspec.structs.replace(step, count=count - cut) if cut else step


def _flows(scenario: Scenario) -> list[Flow]:
    """Every flow of it: a message to a reader that receives nothing is one, too."""
    return list(owed(scenario))


def _moved(scenario: Scenario, step: AnyStep) -> list[tuple[Flow, int]]:
    match step:
        case Send():
            count = sum(message.repeat for message in step.messages)
            return [(("queue", "", reader), count) for reader in scenario.readers()]
        case Receive():
            return [(("queue", "", role), -step.count) for role in scenario.named(step.roles)]
        case RingWrite(fails=False):
            return [(("ring", "", reader), 1) for reader in scenario.readers()]
        case RingRead():
            return [(("ring", "", role), -1) for role in scenario.named(step.roles)]
        case SendTo():
            count = sum(message.repeat for message in step.messages)
            return [(("group", step.role, step.to), count)]
        case ReceiveFrom():
            return [
                (("group", step.source, role), -step.count) for role in scenario.named(step.roles)
            ]
        case PipeSend():
            count = sum(tensor.repeat for tensor in step.tensors)
            return [(("pipe", step.role, _after(scenario, step.role)), count)]
        case PipeReceive():
            taken = scenario.named(step.roles)
            return [(("pipe", _before(scenario, role), role), -step.count) for role in taken]
        case BlocksSend():
            return [((f"blocks of {step.request}", step.role, _after(scenario, step.role)), 1)]
        case BlocksReceive():
            what, asked = f"blocks of {step.request}", scenario.named(step.roles)
            return [((what, _before(scenario, role), role), -1) for role in asked]
        case _:
            return []


def _after(scenario: Scenario, role: str) -> str:
    """Whom a rank of a pipe sends to."""
    roles = scenario.roles()
    return roles[(roles.index(role) + 1) % len(roles)]


def _before(scenario: Scenario, role: str) -> str:
    """Whom it takes from."""
    roles = scenario.roles()
    return roles[roles.index(role) - 1]
