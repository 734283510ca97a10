"""Programs for a coordinator's peers: each can be played, and together they have what bugs take."""

from __future__ import annotations

from collections import Counter

import pytest
from drawn_programs import Programs, drawn

from killpoint.scenario import (
    Connect,
    Disconnect,
    EndWave,
    Fault,
    ReportCounts,
    Request,
    Scale,
    Scenario,
    dump,
    parse,
)
from killpoint.systems.coordinator.generator import programs, programs_without_losses
from killpoint.systems.coordinator.generator_of_faults import (
    programs_with_losses,
    programs_with_waves,
)


def _drawn(strategy: Programs, count: int = 25) -> list[Scenario]:
    return drawn(strategy, "H5/generated", count)


def _has(scenario: Scenario) -> set[str]:
    """Features of a program."""
    linked: dict[str, int | None] = {}
    counts: dict[str, tuple[int, int]] = {}
    asked = False
    found: set[str] = set()
    size = scenario.coordinator.engines if scenario.coordinator else 0
    engines = scenario.engines()
    for step in scenario.steps:
        if isinstance(step, Connect):
            if any(role in scenario.front_ends() for role in step.roles) and linked:
                found.add("a front end comes later")
            if step.rank is not None and step.rank in linked.values():
                found.add("a rank has two links")
            if step.rank is not None and step.rank >= size:
                found.add("an engine comes before its rank")
            for role in step.roles:
                own = engines.index(role) if role in engines else None
                linked[role] = own if step.rank is None else step.rank
        elif isinstance(step, Disconnect) or (isinstance(step, Fault) and step.fault == "kill"):
            for role in step.roles if isinstance(step, Disconnect) else (step.role,):
                linked.pop(role, None)
        elif isinstance(step, ReportCounts):
            last = counts.get(step.role)
            if last is not None and sum(last) == sum(step.counts) and last != step.counts:
                found.add("counts keep their sum")
            counts[step.role] = step.counts
            if asked:
                found.add("counts change in a wave")
        elif isinstance(step, Scale):
            there = {rank for rank in linked.values() if rank is not None}
            if not {*range(size)} <= there:
                found.add("scaled while one is gone")
            size = step.engines
        elif isinstance(step, Request):
            asked = True
        elif isinstance(step, EndWave):
            asked = False
            if 0 not in linked.values():
                found.add("a wave ends without rank 0")
    return found


@pytest.mark.parametrize(
    ("strategy", "features"),
    [
        (
            programs,
            {
                "a front end comes later",
                "an engine comes before its rank",
                "counts keep their sum",
            },
        ),
        (
            programs_with_losses,
            {"a rank has two links", "scaled while one is gone", "a wave ends without rank 0"},
        ),
        (programs_with_waves, {"a wave ends without rank 0", "scaled while one is gone"}),
        (
            programs_without_losses,
            {"a front end comes later", "counts keep their sum", "counts change in a wave"},
        ),
    ],
    ids=["programs", "with losses", "with waves", "without losses"],
)
def test_programs_can_be_played_and_have_what_bugs_take(
    strategy: Programs, features: set[str]
) -> None:
    some = _drawn(strategy)
    for scenario in some:
        assert parse(dump(scenario), "x") == scenario
    seen = Counter(feature for scenario in some for feature in _has(scenario))
    assert features <= seen.keys()
    assert min(seen[feature] for feature in features) >= len(some) // 5, seen


def test_no_engine_ends_where_nobody_would_notice() -> None:
    for scenario in _drawn(programs_without_losses):
        gone = [each.role for each in scenario.steps if isinstance(each, Fault)]
        gone += [
            role for step in scenario.steps if isinstance(step, Disconnect) for role in step.roles
        ]
        assert not {*gone} & {*scenario.engines()}


def test_a_seed_draws_the_same_programs_again() -> None:
    assert _drawn(programs_with_waves, 3) == _drawn(programs_with_waves, 3)
