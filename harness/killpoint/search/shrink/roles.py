"""Fewer roles: readers or ranks go, with every step that is theirs alone."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import msgspec

from killpoint.scenario import AnyStep, Scenario
from killpoint.search.shrink.attempt import fewest
from killpoint.targets.shapes import GroupShape, QueueShape

_SINGLE = ("role", "to", "source")


def fewer_roles(scenario: Scenario) -> Generator[Scenario, bool]:
    """Readers, or ranks but the host, as few as still fail; those that stay are numbered anew."""
    subject = scenario.subject()
    if isinstance(subject, QueueShape):
        readers = range(subject.readers)
        yield from fewest(readers, lambda kept: with_readers(scenario, kept), keep=1)
    elif isinstance(subject, GroupShape):
        ranks = range(1, subject.ranks)
        yield from fewest(ranks, lambda kept: with_ranks(scenario, [0, *kept]))
    # Of a pipe each rank sends to the next: with one less all of them mean another.


def with_readers(scenario: Scenario, kept: Sequence[int]) -> Scenario:
    """The scenario with these of its readers only."""
    shape = scenario.shape
    remote = sum(reader >= shape.readers - shape.remote for reader in kept)
    names = {f"reader-{old}": f"reader-{new}" for new, old in enumerate(kept)}
    return msgspec.structs.replace(
        scenario,
        shape=msgspec.structs.replace(shape, readers=len(kept), remote=remote),
        steps=_renamed(scenario, {"writer": "writer", **names}),
    )


def with_ranks(scenario: Scenario, kept: Sequence[int]) -> Scenario | None:
    """The group's scenario with these of its ranks only."""
    group = scenario.subject()
    if not isinstance(group, GroupShape):
        return None
    names = {f"rank-{old}": f"rank-{new}" for new, old in enumerate(kept)}
    return msgspec.structs.replace(
        scenario,
        group=msgspec.structs.replace(group, ranks=len(kept)),
        steps=_renamed(scenario, names),
    )


def _renamed(scenario: Scenario, names: Mapping[str, str]) -> list[AnyStep]:
    known = {"all": "all", "readers": "readers", **names}
    out: list[AnyStep] = []
    for step in scenario.steps:
        changed: dict[str, object] = {}
        for field in step.__struct_fields__:
            if field in _SINGLE:
                changed[field] = known.get(getattr(step, field))
            elif field == "roles":
                roles: tuple[str, ...] = getattr(step, field)
                left = tuple(known[role] for role in roles if role in known)
                changed[field] = (roles if left == roles else left) or None
        if None not in changed.values():
            out.append(msgspec.structs.replace(step, **changed))
    return out
