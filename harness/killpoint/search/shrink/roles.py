"""Fewer roles: readers, ranks or workers go, with every step that is theirs alone."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import msgspec

from killpoint.scenario import AnyStep, Call, Execute, Scenario, Submit
from killpoint.search.shrink.attempt import fewest
from killpoint.targets.shapes import GroupShape, PoolShape, QueueShape

_SINGLE = ("role", "to", "source")


def fewer_roles(scenario: Scenario) -> Generator[Scenario, bool]:
    """Readers, ranks but the host, or workers, as few as still fail; the rest is numbered anew."""
    subject = scenario.subject()
    if isinstance(subject, QueueShape):
        readers = range(subject.readers)
        yield from fewest(readers, lambda kept: with_readers(scenario, kept), keep=1)
    elif isinstance(subject, GroupShape):
        ranks = range(1, subject.ranks)
        yield from fewest(ranks, lambda kept: with_ranks(scenario, [0, *kept]))
    elif isinstance(subject, PoolShape):
        workers = range(subject.workers)
        yield from fewest(workers, lambda kept: with_workers(scenario, kept), keep=1)
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


def with_workers(scenario: Scenario, kept: Sequence[int]) -> Scenario | None:
    """The pool's scenario with these of its workers only; who alone replies is asked of them."""
    pool = scenario.subject()
    if not isinstance(pool, PoolShape):
        return None
    new = {old: n for n, old in enumerate(kept)}
    names = {"executor": "executor", **{f"worker-{old}": f"worker-{n}" for old, n in new.items()}}
    steps: list[AnyStep] = []
    for step in _renamed(scenario, names):
        if isinstance(step, Execute):
            return None  # it says of each worker what it has finished
        if isinstance(step, Call | Submit) and step.rank is not None:
            if step.rank not in new:
                return None
            step = msgspec.structs.replace(step, rank=new[step.rank])
        steps.append(step)
    return msgspec.structs.replace(
        scenario, pool=msgspec.structs.replace(pool, workers=len(kept)), steps=steps
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
