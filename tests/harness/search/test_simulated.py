"""Errands to a simulated world: searched, proven by replay, simplified, and told to a person."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from killpoint.interfaces import SimulatedEnvironment
from killpoint.search.simulated import Ask, Explored, SearchCall, answer, carry_out
from killpoint.simulation.programs.delivery import Delivery
from killpoint.targets.protocol import QueueShape
from killpoint.targets.refengine.adapter import RefengineTarget


class Toy:
    """A queue of one slot for one reader: a flag, and a message of sixteen bytes."""

    def __init__(self, *, fenced: bool = True, resets_first: bool = False) -> None:
        self.fenced, self.resets_first = fenced, resets_first
        self.runs = 0

    @contextmanager
    def simulated(self, environment: SimulatedEnvironment) -> Generator[Any]:
        self.around = environment
        yield self

    def make(self, shape: QueueShape) -> Any:
        del shape
        self.runs += 1
        return self.around.create(32).buf

    def handle(self, end: Any) -> Any:
        return end

    def attach(self, handle: Any, rank: int) -> Any:
        del rank
        return handle

    def _fence(self) -> None:
        if self.fenced:
            self.around.fence()

    def send(self, end: Any, obj: bytes, timeout: float | None) -> None:
        del timeout
        while end[0]:
            self.around.spin("room")
        self._fence()
        end[1:17] = obj
        self._fence()
        end[0] = 1
        self._fence()

    def receive(self, end: Any, timeout: float | None) -> bytes:
        del timeout
        while not end[0]:
            self.around.spin("a message")
        self._fence()
        if self.resets_first:
            end[0] = 0
        content = bytes(end[1:17])
        self._fence()
        if not self.resets_first:
            end[0] = 0
        self._fence()
        return content


def _explored(target: Any, memory: Any, *asks: Ask, messages: int = 3) -> Explored:
    play = Delivery(QueueShape(readers=1, chunk_bytes=80, chunks=1), messages)
    return carry_out(target, SearchCall(play, memory, list(asks), shrinking=2.0))


@pytest.mark.parametrize("memory", ["sequential", "tso", "relaxed", "view"])
def test_a_sound_queue_holds_in_every_model(memory: str) -> None:
    explored = _explored(Toy(), memory, Ask("delays", 2, 3_000), Ask("pct", 3, 200))
    assert explored.violation is None
    assert explored.searches[0].complete


def test_a_race_is_found_without_any_weak_memory() -> None:
    explored = _explored(Toy(resets_first=True), "sequential", Ask("preemptions", 2))
    assert explored.violation is not None
    assert explored.violation.kind in ("lost", "wrong-data")


@pytest.mark.parametrize(("memory", "bad"), [("tso", False), ("relaxed", True), ("view", True)])
def test_missing_fences_show_where_stores_or_loads_are_reordered(memory: str, bad: bool) -> None:
    explored = _explored(Toy(fenced=False), memory, Ask("delays", 2, 3_000))
    assert (explored.violation is not None) == bad


def test_a_violation_replays_from_its_choices_every_time() -> None:
    found = _explored(Toy(fenced=False), "relaxed", Ask("random", cap=500))
    assert found.violation is not None
    for _ in range(20):
        again = _explored(
            Toy(fenced=False), "relaxed", Ask("replay", cap=1, schedule=found.schedule)
        )
        assert (again.violation, again.lines) == (found.violation, found.lines)
        assert again.searches[0].schedules == 1


def test_its_schedule_says_who_did_what_and_saw_which_values() -> None:
    found = _explored(Toy(fenced=False), "relaxed", Ask("delays", 2))
    text = "\n".join(found.lines)
    assert "writer    stores byte 0 = 1, not visible yet" in text
    assert "writer's store becomes visible" in text
    assert "reader-0  takes it for message" in text


class Moody(Toy):
    """Gives rubbish once, whatever the schedule."""

    def receive(self, end: Any, timeout: float | None) -> bytes:
        content = super().receive(end, timeout)
        TAKEN.append(1)
        return b"\xff" * 16 if len(TAKEN) == 100 else content


TAKEN: list[int] = []
"""All receives of a test: a thing outside of the world."""


@pytest.fixture(autouse=True)
def _nothing_taken() -> None:
    TAKEN.clear()


def test_what_does_not_replay_is_a_doubt_and_no_violation() -> None:
    explored = _explored(Moody(), "sequential", Ask("preemptions", 2))
    assert explored.violation is None
    assert "replayed, the same schedule says: held" in explored.doubt


def test_the_search_goes_on_after_what_does_not_replay() -> None:
    explored = _explored(Moody(resets_first=True), "relaxed", Ask("preemptions", 2))
    assert explored.violation is not None
    assert explored.doubt == ""


def test_a_schedule_of_something_else_is_a_doubt() -> None:
    play = Delivery(QueueShape(readers=1, chunk_bytes=80, chunks=1), 1)
    call = SearchCall(play, "sequential", [Ask("replay", schedule=[9])])
    done = answer(RefengineTarget(), msgspec.msgpack.encode(call))
    explored = msgspec.msgpack.decode(done, type=Explored)
    assert "does not fit this run" in explored.doubt


def test_a_reader_that_waits_for_ever_is_a_hang_and_named() -> None:
    class Deaf(Toy):
        def send(self, end: Any, obj: bytes, timeout: float | None) -> None:
            """Nothing is sent."""

    explored = _explored(Deaf(), "sequential", Ask("preemptions", 1))
    assert explored.violation is not None
    assert explored.violation.kind == "hang"
    assert "reader-0 waited for a message" in explored.violation.cause


def test_a_search_says_how_many_schedules_a_second_it_tried() -> None:
    play = Delivery(QueueShape(readers=1, chunk_bytes=80, chunks=1), 3)
    call = SearchCall(play, "sequential", [Ask("preemptions", 2, 400)])
    explored = msgspec.msgpack.decode(
        answer(RefengineTarget(), msgspec.msgpack.encode(call)), type=Explored
    )
    (searched,) = explored.searches
    assert explored.violation is None
    assert searched.schedules == 400
    assert searched.rate == pytest.approx(searched.schedules / searched.seconds)
