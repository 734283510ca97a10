"""Building blocks of plays of process groups."""

from __future__ import annotations

from killpoint.scenario import AnyStep, Join, Message, ReceiveFrom, Scenario, SendTo, Wait
from killpoint.targets.shapes import GroupShape

JOIN_GROUP: list[AnyStep] = [Join(), Wait(within=30.0)]
"""Every rank becomes a member."""


def ranks(count: int) -> tuple[str, ...]:
    """The roles of a group of so many ranks."""
    return tuple(f"rank-{rank}" for rank in range(count))


def group_scenario(id: str, *steps: AnyStep, count: int = 3, host: str = "127.0.0.1") -> Scenario:
    """A scenario of a group, judged by the invariant that its case belongs to."""
    return Scenario(
        case=id,
        judges=[id.split("/")[0]],
        steps=list(steps),
        group=GroupShape(ranks=count, host=host),
    )


def surely(count: int) -> int:
    """Return how many of these lines of a waiting call every such call reaches.

    How often a wait polls differs from play to play, and so does the number of its lines: the last
    quarter may not be there the next time.
    """
    return count - count // 4


def around(roles: tuple[str, ...], messages: list[Message]) -> list[AnyStep]:
    """Every rank sends to the next one: no rank takes from two."""
    count = sum(message.repeat for message in messages)
    after = dict(zip(roles, (*roles[1:], roles[0]), strict=True))
    steps: list[AnyStep] = [SendTo(role, to, messages) for role, to in after.items()]
    steps += [ReceiveFrom((to,), role, count, timeout=8.0) for role, to in after.items()]
    return steps


def all_to_all(roles: tuple[str, ...], messages: list[Message]) -> list[AnyStep]:
    """Every rank sends to every other before any of them receives, the last sender's first."""
    count = sum(message.repeat for message in messages)
    steps: list[AnyStep] = []
    for role in roles:
        steps += [SendTo(role, to, messages) for to in roles if to != role]
    for role in roles:
        others = [source for source in reversed(roles) if source != role]
        steps += [ReceiveFrom((role,), source, count, timeout=8.0) for source in others]
    return steps
