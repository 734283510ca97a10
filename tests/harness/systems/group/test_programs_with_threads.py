"""Generated programs of a group whose ranks wait in several calls at once (H2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from hypothesis import HealthCheck, given, settings

from killpoint.scenario import (
    AnyStep,
    Barrier,
    Broadcast,
    Gather,
    GroupRejoin,
    ReceiveFrom,
    Scenario,
    SendTo,
    dump,
    parse,
)
from killpoint.systems.group.generator_of_threads import programs_with_threads

_Meets = Barrier | Gather
_Beside = ReceiveFrom | Broadcast | _Meets


def drawn(look: Callable[[Scenario], None], count: int = 50) -> None:
    """Look at so many programs, the same ones each time."""
    quick = settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    quick(given(programs_with_threads("H2/x", 3))(look))()


def _what(step: AnyStep) -> str:
    if isinstance(step, ReceiveFrom | Broadcast):
        return f"{type(step).__name__} {step.source}"
    return type(step).__name__


def _stages(scenario: Scenario) -> Iterator[list[AnyStep]]:
    stage: list[AnyStep] = []
    for step in scenario.steps:
        stage.append(step)
        if isinstance(step, GroupRejoin):
            yield stage
            stage = []


def _waiting(scenario: Scenario, stage: list[AnyStep]) -> Counter[tuple[str, str]]:
    """Calls beside others that begin in a stage: (rank, what it waits for)."""
    return Counter(
        (role, _what(step))
        for step in stage
        if isinstance(step, _Beside) and step.beside
        for role in scenario.named(step.roles)
    )


def test_a_program_is_a_scenario_file() -> None:
    def look(scenario: Scenario) -> None:
        assert parse(dump(scenario), "x") == scenario
        assert (scenario.judges, scenario.seed) == (["H2"], 3)

    drawn(look)


def test_a_rank_waits_for_two_to_five_different_things_at_once() -> None:
    most = Counter[int]()

    def look(scenario: Scenario) -> None:
        for stage in _stages(scenario):
            waiting = _waiting(scenario, stage)
            assert set(waiting.values()) == {1}
            most[max(Counter(role for role, _ in waiting).values())] += 1

    drawn(look)
    assert set(most) == {2, 3, 4, 5}


def test_all_that_is_waited_for_comes_but_what_is_to_run_out() -> None:
    vain = Counter[bool]()

    def look(scenario: Scenario) -> None:
        for stage in _stages(scenario):
            sent = {(step.to, step.role): len(step.messages) for step in stage if _sends(step)}
            for step in stage:
                if isinstance(step, ReceiveFrom):
                    lacks = (step.roles[0], step.source) not in sent
                    vain[lacks] += 1
                    assert (step.timeout or 0) < 1 if lacks else step.count
                    assert lacks or step.count == sent[step.roles[0], step.source]
            come = Counter(
                (_what(step), role)
                for step in stage
                if isinstance(step, Broadcast | _Meets)
                for role in scenario.named(step.roles)
            )
            assert set(come.values()) <= {1}
            assert {len(scenario.roles())} >= set(Counter(what for what, _ in come).values())

    drawn(look)
    assert vain[True] > 10
    assert vain[False] > 100


def _sends(step: AnyStep) -> bool:
    return isinstance(step, SendTo)


def test_things_come_in_another_order_than_they_are_waited_for() -> None:
    orders = Counter[bool]()

    def look(scenario: Scenario) -> None:
        for stage in _stages(scenario):
            begun = [_lane(step) for step in stage if isinstance(step, _Beside) and step.beside]
            come = [
                _lane(step)
                for step in stage
                if isinstance(step, SendTo | Broadcast | _Meets)
                and not getattr(step, "beside", False)
            ]
            orders[[lane for lane in begun if lane in come] == come] += 1

    drawn(look)
    assert orders[False] > orders[True] > 0


def _lane(step: AnyStep) -> tuple[str, str]:
    if isinstance(step, SendTo):
        return "ReceiveFrom", step.role
    if isinstance(step, ReceiveFrom | Broadcast):
        return type(step).__name__, step.source
    return type(step).__name__, ""
