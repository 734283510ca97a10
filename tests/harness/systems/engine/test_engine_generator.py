"""Generated programs of an engine: what each has, and how one is made smaller."""

from __future__ import annotations

from typing import cast, get_args

import pytest

from killpoint.scenario import Burst, Fault, Scenario, WaitHealthy, dump, parse
from killpoint.search.case_run import CaseRun, Violated
from killpoint.search.generated import smaller
from killpoint.search.play_evidence import Unsupported
from killpoint.systems.engine.burst import Requests, prompt_of
from killpoint.systems.engine.cases.generated import CASES, candidates
from killpoint.systems.engine.generator import Topology, program
from killpoint.systems.engine.steps import Ask, Client
from killpoint.targets.engine_protocol import EngineShape
from killpoint.verdict import CaseOutcome

_EVERY: tuple[Topology, ...] = get_args(Topology)


def _clients(scenario: Scenario) -> list[Client]:
    bursts = [step for step in scenario.steps if isinstance(step, Burst)]
    return [client for burst in bursts for client in burst.clients]


@pytest.mark.parametrize("topology", _EVERY)
def test_a_program_is_its_seeds_and_survives_its_file(topology: Topology) -> None:
    made = program("H6/x", 3, 0, topology)
    assert program("H6/x", 3, 0, topology) == made
    assert program("H6/x", 4, 0, topology) != made
    assert program("H6/x", 3, 1, topology) != made
    assert parse(dump(made), "x").steps == made.steps


@pytest.mark.parametrize("seed", range(20))
def test_a_program_of_one_replica_has_every_kind_of_request(seed: int) -> None:
    made = program("H6/x", seed, 0, "one-replica")
    asks = [ask for client in _clients(made) for ask in client.asks]
    shape = made.engine
    assert shape is not None
    sizes = [ask.blocks * shape.block_size + ask.own + ask.max_tokens for ask in asks]
    assert max(sizes) == shape.blocks * shape.block_size
    assert sum(size > 256 for size in sizes) > 15
    assert any(ask.max_tokens == 1 for ask in asks)
    assert any(ask.cancel_after for ask in asks)
    assert any(ask.cancel_at for ask in asks)
    assert any(ask.cancel_ended for ask in asks)
    assert any(client.id and len(client.asks) > 2 for client in _clients(made))


def test_a_part_dies_more_often_than_it_may_fail_in_a_row() -> None:
    made = program("H6/x", 0, 0, "two-replicas")
    killed = [step.role for step in made.steps if isinstance(step, Fault)]
    assert killed.count("coordinator") > 5
    assert len(killed) > killed.count("coordinator")
    waits = [step for step in made.steps if isinstance(step, WaitHealthy)]
    assert len(waits) == len(killed)
    assert all(wait.vital for wait in waits)


def test_prompts_of_a_family_begin_alike_and_later_blocks_come_in_others() -> None:
    shape = EngineShape(block_size=4)
    long, short, other = (
        prompt_of(ask, shape, 1) for ask in (Ask(1, 9, 2), Ask(1, 2, 2), Ask(2, 9, 2))
    )
    assert len(long) == 38
    assert long[:8] == short[:8]
    assert long[:4] != other[:4]
    blocks = {long[at : at + 4] for at in range(4, 36, 4)}
    assert blocks & {other[at : at + 4] for at in range(4, 36, 4)}


def test_requests_that_ask_for_the_same_have_one_key() -> None:
    requests = Requests(EngineShape(), 0)
    same = [requests.of(Ask(1, 1, 3, 5)), requests.of(Ask(1, 1, 3, 5, cancel_at=1))]
    more = requests.of(Ask(1, 1, 3, 6))
    assert same[0] is same[1]
    assert [each.key for each in requests.known()] == [0, 1] == [same[0].key, more.key]


class _Convicting:
    """A case run that convicts programs which have all of these clients and so many deaths."""

    def __init__(self, needed: list[Client], deaths: int) -> None:
        self.needed, self.deaths = needed, deaths
        self.least: Scenario | None = None

    def play(self, scenario: Scenario) -> None:
        clients = _clients(scenario)
        deaths = sum(isinstance(step, Fault) for step in scenario.steps)
        if all(each in clients for each in self.needed) and deaths >= self.deaths:
            self.least = scenario
            raise Violated("a lie")


def test_clients_and_deaths_that_do_not_matter_are_left_out() -> None:
    made = program("H6/x", 3, 0, "two-replicas")
    run = _Convicting(_clients(made)[3:5], 2)
    smaller(cast("CaseRun", run), candidates(made), 60.0)
    assert run.least is not None
    assert _clients(run.least) == run.needed
    assert sum(isinstance(step, Fault) for step in run.least.steps) == 2
    assert not [step for step in run.least.steps if isinstance(step, Burst) and not step.clients]


def test_nothing_smaller_is_played_when_the_time_is_over() -> None:
    run = _Convicting([], 0)
    smaller(cast("CaseRun", run), candidates(program("H6/x", 3, 0, "apart")), 0.0)
    assert run.least is None


class _Without:
    """A case run of a target that has not the topologies with this many prefilling replicas."""

    full, seed, reach = False, 0, None

    def __init__(self, prefill: int) -> None:
        self.prefill, self.played = prefill, list[Scenario]()
        self.outcome = CaseOutcome("H6/generated", "H6", "inconclusive")

    def play(self, scenario: Scenario) -> None:
        assert scenario.engine is not None
        if scenario.engine.prefill == self.prefill:
            raise Unsupported("no such engine")
        self.played.append(scenario)


def test_a_topology_that_a_target_has_not_leaves_its_turn_to_the_next() -> None:
    (case,) = [case for case in CASES if case.id == "H6/generated"]
    run = _Without(1)
    case.run(cast("CaseRun", run))
    assert [each.engine for each in run.played] == [program(case.id, 0, 0, "one-replica").engine]
    (case,) = [case for case in CASES if case.id == "H6/generated-deaths"]
    with pytest.raises(Unsupported):
        case.run(cast("CaseRun", _Without(0)))
