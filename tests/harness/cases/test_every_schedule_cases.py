"""Q8 and Q13 in the simulated tier, on the reference itself."""

from __future__ import annotations

import msgspec
import pytest

from killpoint.cases import CASES
from killpoint.scenario import (
    Make,
    Message,
    Pause,
    Receive,
    Scenario,
    Send,
    Simulated,
    dump,
    parse,
)
from killpoint.search.schedule_run import play_of
from killpoint.search.simulated import Ask, Explored, Play, SearchCall, carry_out
from killpoint.simulation.programs.delivery import Delivery
from killpoint.simulation.programs.shared_end import Sharing
from killpoint.simulation.programs.wake_up import Waking
from killpoint.systems.queue.cases.every_schedule import CASES as OWN
from killpoint.targets.protocol import QueueShape
from killpoint.targets.refengine.adapter import RefengineTarget

_ONE = QueueShape(readers=1, chunk_bytes=160, chunks=4)


def _explored(play: Play, bound: int, memory: str = "sequential") -> Explored:
    call = SearchCall(play, memory, [Ask("preemptions", bound)])
    return carry_out(RefengineTarget(), call)


def _scenario(*steps: object, late: bool = False) -> Scenario:
    return Scenario("Q8/x", ["Q8"], list(steps), shape=_ONE, simulated=Simulated(late=late))


def test_the_cases_are_of_the_simulated_tier_and_among_all() -> None:
    assert {case.tier for case in OWN} == {"simulated"}
    assert {case.id for case in OWN} <= {case.id for case in CASES}


def test_steps_say_what_is_played() -> None:
    pauses = _scenario(Make(), Pause(2.0), Send([Message(repeat=2)]), Pause(9.0), Send([Message()]))
    assert play_of(pauses) == Waking(_ONE, [2.0, 0.0, 9.0], False)
    assert play_of(_scenario(Send([Message()]), late=True)) == Waking(_ONE, [0.0], True)
    senders = _scenario(Send([Message(repeat=4)], threads=2), Receive(4))
    assert play_of(senders) == Sharing(_ONE, 2, "send")
    receivers = _scenario(Send([Message(repeat=2)]), Receive(2, threads=2))
    assert play_of(receivers) == Sharing(_ONE, 1, "receive")


def test_a_kept_scenario_is_played_alike() -> None:
    scenario = _scenario(Make(), Pause(2.0), Send([Message()]), late=True)
    again = parse(dump(scenario), "kept")
    assert play_of(again) == play_of(scenario)


@pytest.mark.parametrize("memory", ["sequential", "tso", "relaxed", "view"])
def test_the_reference_wakes_in_every_schedule_of_one_preemption(memory: str) -> None:
    shape = msgspec.structs.replace(_ONE, chunks=1)
    explored = _explored(Waking(shape, [2.0, 0.0, 100.0]), 1, memory)
    assert explored.violation is None
    assert explored.searches[0].complete


@pytest.mark.parametrize("operation", ["send", "receive"])
def test_threads_on_one_object_of_the_reference_exclude_each_other(operation: str) -> None:
    explored = _explored(Sharing(_ONE, 1, operation), 1)
    assert explored.violation is None
    assert explored.searches[0].complete
    assert explored.searches[0].schedules > 100


def test_the_reference_is_itself_again_afterwards() -> None:
    before = _globals()
    _explored(Waking(_ONE, [0.0]), 0)
    assert _globals() == before


def _globals() -> dict[str, int]:
    from refengine.base import event_waiter, serialization
    from refengine.queue import local_fanout, overflow, reader
    from refengine.ring import waiting

    modules = (waiting, serialization, local_fanout, overflow, reader, event_waiter)
    return {f"{m.__name__}.{name}": id(thing) for m in modules for name, thing in vars(m).items()}


def test_a_reduced_search_runs_a_quarter_and_says_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Delivery(QueueShape(readers=1, chunk_bytes=64, chunks=1), 3)
    (reduced,) = _explored(play, 2).searches
    monkeypatch.setattr(Delivery, "reducible", False)
    (every,) = _explored(play, 2).searches
    assert (reduced.complete, every.complete) == (True, True)
    assert 4 * reduced.schedules < every.schedules
