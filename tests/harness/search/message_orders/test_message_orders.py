"""Every order of messages is explored, and one that breaks a clause is written down and replays."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from killpoint.scenario import Orders
from killpoint.search.message_orders.memory import InFlight, Numbers
from killpoint.search.message_orders.protocol_state import ProtocolState
from killpoint.search.message_orders.remote_call import SearchCall, carry_out
from killpoint.search.message_orders.search import Diverged, play, search
from killpoint.targets.waves import Sent


class Simple:
    """A party of a toy protocol: an engine begs, the coordinator tells all to go."""

    unfinished = 0

    def __init__(self, toy: Toy) -> None:
        self.toy = toy
        self.wave, self.running = 0, False

    def save(self) -> Hashable:
        return self.wave, self.running, self.unfinished

    def restore(self, saved: Hashable) -> None:
        self.wave, self.running, self.unfinished = saved

    def hear(self, sender: str, message: Hashable) -> Sent:
        del sender
        if message == "beg":
            self.running = True
            return [("engines", "go")]
        if message == "over":
            self.wave, self.running = self.wave + 1, False
            return []
        self.running = True
        return []

    def arrived(self, who: str) -> Sent:
        del who
        return [("engines", "go")] if self.running and self.toy.tells_late_ones else []

    def accept(self) -> Sent:
        self.unfinished += 1
        return [("coordinator", "beg")]

    def step(self) -> bool:
        self.unfinished -= self.unfinished > 0
        return self.unfinished > 0

    def agreed(self, anyone_unfinished: bool) -> Sent:
        if anyone_unfinished:
            return []
        self.wave, self.running = self.wave + 1, False
        return [("coordinator", "over")] if self.toy.ends else []

    def hold(self) -> Sent:
        return []

    release = hold


class Toy:
    def __init__(self, *, tells_late_ones: bool, ends: bool = True) -> None:
        self.tells_late_ones, self.ends = tells_late_ones, ends

    def wave_parties(self, engines: int, front_ends: int) -> Toy:
        self.coordinator = Simple(self)
        self.engines = [Simple(self) for _ in range(engines)]
        self.front_ends = [Simple(self) for _ in range(front_ends)]
        return self


ONE = Orders(engines=1, front_ends=0, requests=1)
CAREFUL, CARELESS = Toy(tells_late_ones=True), Toy(tells_late_ones=False)


def test_all_orders_of_a_sound_protocol_are_covered_and_hold() -> None:
    found = search(ProtocolState(CAREFUL, ONE), "C2", 10.0)
    assert found.whole
    assert found.violation is None
    assert found.states > 5


def test_a_stranded_request_is_told_by_a_shortest_order() -> None:
    found = search(ProtocolState(CARELESS, ONE), "C2", 10.0)
    assert found.violation is not None
    assert (found.violation.kind, found.whole) == ("lost", False)
    assert found.lines == [
        "engine-0 accepts a request",
        "coordinator hears engine-0: beg",
        "engine-0 begins to listen",
    ]


def test_an_order_that_was_written_down_breaks_the_same_clause_again() -> None:
    lines = search(ProtocolState(CARELESS, ONE), "C2", 10.0).lines
    assert play(ProtocolState(CARELESS, ONE), "C2", lines) is not None
    assert play(ProtocolState(CAREFUL, ONE), "C2", lines) is None


def test_an_order_that_cannot_be_is_told_and_is_no_evidence() -> None:
    with pytest.raises(Diverged, match=r"move 0, 'engine-0 flies', cannot happen; what can: eng"):
        play(ProtocolState(CAREFUL, ONE), "C2", ["engine-0 flies"])
    doubted = carry_out(CAREFUL, SearchCall(Orders(1, 0, moves=["x"]), "C2", 1.0))
    assert doubted.violation is None
    assert "cannot happen" in doubted.doubt


def test_a_finding_is_played_again_before_it_is_believed() -> None:
    explored = carry_out(CARELESS, SearchCall(ONE, "C2", 10.0))
    assert explored.violation is not None
    assert not explored.doubt
    assert len(explored.lines) == 3


def test_an_engine_that_waits_for_another_for_ever_breaks_c3() -> None:
    found = search(ProtocolState(CARELESS, Orders(engines=2, front_ends=0, requests=1)), "C3", 10.0)
    assert found.violation is not None
    assert "engine-0 waits for engine-1 in an all-reduce of wave 0" in found.violation.cause


def test_an_engine_two_waves_ahead_breaks_c1() -> None:
    unsaid = Toy(tells_late_ones=True, ends=False)
    found = search(ProtocolState(unsaid, Orders(engines=1, front_ends=0, requests=2)), "C1", 10.0)
    assert found.violation is not None
    assert found.violation.cause.endswith("it leads by more than one")


def test_a_search_out_of_time_says_that_it_is_capped() -> None:
    wide = Orders(engines=3, front_ends=0, requests=3)
    found = search(ProtocolState(CAREFUL, wide), "C1", 0.0)
    assert not found.whole
    assert str(found).startswith("capped")


def test_links_keep_their_order_and_equal_things_one_number() -> None:
    links = InFlight()
    link = links.push(links.push(0, 7), 8)
    assert links.pop(link) == (7, links.push(0, 8))
    numbers = Numbers[str]()
    assert [numbers.of(word) for word in ("a", "b", "a")] == [0, 1, 0]


class Mourned(Simple):
    """A party that is told of deaths."""

    def left(self, who: str) -> Sent:
        self.toy.told.append(f"coordinator: {who}")
        return []

    def broken(self, lost: tuple[int, ...]) -> Sent:
        self.toy.told.append(f"engine: {lost}")
        self.wave, self.running = self.wave + 1, False
        return []


class Mourning(Toy):
    """Its coordinator does not know that a wave without the dead has to follow."""

    def wave_parties(self, engines: int, front_ends: int) -> Toy:
        super().wave_parties(engines, front_ends)
        self.told: list[str] = []
        self.coordinator = Mourned(self)
        self.engines = [Mourned(self) for _ in range(engines)]
        return self


PAIR = Orders(engines=2, front_ends=0, requests=2, deaths=1)


def test_a_death_is_told_to_the_coordinator_and_to_who_meets_the_dead() -> None:
    toy = Mourning(tells_late_ones=True)
    world = ProtocolState(toy, PAIR)
    state = world.begin()
    for wanted in (
        "engine-0 begins to listen",
        "engine-1 begins to listen",
        "engine-0 accepts a request",
        "coordinator hears engine-0: beg",
        "engine-0 hears: go",
        "engine-0 steps",
        "engine-1 dies",
        "engine-1 is missed",
        "engine-0 meets the dead",
    ):
        there = {world.text(state, move): move for move in world.moves(state)}
        assert wanted in there
        state = world.after(state, there[wanted])
    assert toy.told == ["coordinator: engine-1", "engine: (1,)"]
    names = [world.text(state, move) for move in world.moves(state)]
    assert not [name for name in names if name.startswith("engine-1")]


def test_what_the_living_have_accepted_must_be_stepped_all_the_same() -> None:
    found = search(ProtocolState(Mourning(tells_late_ones=True), PAIR), "C2", 20.0)
    assert found.violation is not None
    assert found.violation.kind == "lost"
    assert any(line.endswith("dies") for line in found.lines)
    assert play(ProtocolState(Mourning(tells_late_ones=True), PAIR), "C2", found.lines) is not None
