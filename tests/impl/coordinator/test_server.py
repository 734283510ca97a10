"""The shell, turn by turn, on real sockets and a clock of the test's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import zmq

from refengine.base import ownership
from refengine.base.security import Keys
from refengine.coordinator import (
    CoordinatorSettings,
    EngineLink,
    FrontEndLink,
    Report,
    Start,
    State,
    protocol,
)
from refengine.coordinator.links import BindAddress
from refengine.coordinator.server import CoordinatorServer

_WITHIN = 10.0


class Crew:
    """A loop and those who talk to it."""

    def __init__(self, place: BindAddress, engines: int) -> None:
        self._stack = ExitStack()
        self.now = 100.0
        self.loop = CoordinatorServer(
            engines, place, CoordinatorSettings(peer_timeout=3.0), lambda: self.now
        )
        self._stack.callback(self.loop.close)

    def engine(self, rank: int) -> EngineLink:
        link = EngineLink(self.loop.addresses, rank)
        self._stack.callback(link.close)
        return link

    def front_end(self) -> FrontEndLink:
        link = FrontEndLink(self.loop.addresses)
        self._stack.callback(link.close)
        return link

    def until(self, there: Callable[[], Any], what: str) -> Any:
        """Turn until it is there; the loop's clock stands still."""
        end = time.monotonic() + _WITHIN
        while time.monotonic() < end:
            self.loop.turn(most=0.01)
            found = there()
            if found:
                return found
        raise AssertionError(f"{what} did not come in {_WITHIN:g} s")

    def heard(self, link: Any, message: Start | State) -> None:
        self.until(lambda: link.hear() == message, f"{message}")

    def hears_first(self, front: FrontEndLink) -> None:
        """Let time pass until a front end is heard to listen, and has heard."""

        def later() -> Any:
            self.now += 0.2
            return front.hear()

        self.until(later, "the first state")
        while front.hear(0.02):
            pass

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def crew() -> Iterator[Crew]:
    folder = ownership.new_directory()  # pytest's own is too long for a socket's path
    made = Crew(BindAddress(str(folder)), 2)
    yield made
    made.close()
    ownership.remove_directory(folder)


def test_a_wave_starts_ends_and_front_ends_hear_of_it(crew: Crew) -> None:
    front = crew.front_end()
    crew.hears_first(front)
    first, second = crew.engine(0), crew.engine(1)
    first.send([Report(0, wants=0, work=True)])
    crew.heard(first, Start(0, (0, 1)))
    crew.heard(second, Start(0, (0, 1)))
    crew.now += 0.2
    crew.until(lambda: (s := front.hear()) and s.running, "the news that it runs")
    first.send([Report(0, done=0)])
    crew.heard(front, State(1, False))


def test_a_replica_that_listens_late_is_told_of_the_wave(crew: Crew) -> None:
    crew.engine(0).send([Report(0, wants=0, work=True)])
    crew.until(lambda: crew.loop.core.running, "the wave")
    crew.heard(crew.engine(1), Start(0, (0, 1)))


def test_a_replica_that_ends_is_gone_at_once_and_one_that_returns_is_back(crew: Crew) -> None:
    lost = crew.engine(1)
    crew.engine(0).send([Report(0, wants=0, work=True)])
    crew.heard(lost, Start(0, (0, 1)))
    lost.close()
    crew.until(lambda: crew.loop.core.gone == {1}, "its end")
    assert crew.loop.core.members == (0,)
    crew.engine(1)
    crew.until(lambda: not crew.loop.core.gone, "its return")


def test_a_silent_replica_is_gone_until_it_speaks(crew: Crew) -> None:
    engine = crew.engine(1)
    crew.until(lambda: crew.loop._heartbeats.due() == crew.now + 3.0, "its arrival")
    crew.now += 2.9
    crew.loop.turn(most=0.0)
    assert not crew.loop.core.gone
    crew.now += 0.2
    crew.loop.turn(most=0.0)
    assert crew.loop.core.gone == {1}
    engine.alive()
    crew.until(lambda: not crew.loop.core.gone, "its return")


def test_counts_are_heard_though_messages_never_cease(crew: Crew) -> None:
    engine, front = crew.engine(0), crew.front_end()
    crew.hears_first(front)
    engine.send([Report(0, counts=(5, 1))])
    crew.until(lambda: crew.loop.core.counts[0] == (5, 1), "the counts")
    began = crew.now
    for _ in range(100):
        engine.send([Report(0, counts=(5, 1))] * 10)
        crew.now += 0.01
        crew.loop.turn()  # until they have come
        if crew.loop._schedule.due > crew.now + 0.5:
            break  # it has published
    assert crew.now - began <= 0.25
    crew.until(lambda: (s := front.hear()) and s.counts and s.counts[0] == (5, 1), "the news")


def test_a_jump_of_the_clock_makes_up_for_no_publication(crew: Crew) -> None:
    front = crew.front_end()
    crew.hears_first(front)
    crew.now += 3600.0
    crew.loop.turn(most=0.0)
    assert front.hear(5.0) is not None
    crew.loop.turn(most=0.0)
    assert front.hear(0.02) is None


def test_malformed_messages_are_dropped_alone(crew: Crew) -> None:
    engine, front = crew.engine(0), crew.front_end()
    raw = engine._reports
    for frame in (b"", b"\xc1nonsense", protocol.encode(Report(9, wants=0, work=True))):
        raw.send(frame)
    raw.send_multipart([b"two", b"frames"])
    front._states.send(b"\xc1")
    engine.send([Report(0, counts=(1, 1))])
    crew.until(lambda: crew.loop.core.counts[0] == (1, 1), "what came after them")
    crew.until(lambda: crew.loop.malformed == 5, f"five of them (not {crew.loop.malformed})")
    assert not crew.loop.core.running


def test_a_front_end_scales(crew: Crew) -> None:
    front = crew.front_end()
    front.scale(3)
    crew.heard(front, State(0, False, ((0, 0),) * 3))


def test_over_tcp_only_who_has_the_key_is_heard() -> None:
    with pytest.raises(ValueError, match="needs keys"):
        CoordinatorServer(1, BindAddress(host="127.0.0.1"))
    crew = Crew(BindAddress(host="127.0.0.1", keys=Keys.fresh()), 1)
    try:
        context = zmq.Context()
        stranger = context.socket(zmq.PUSH)
        stranger.connect(crew.loop.addresses.reports)
        stranger.setsockopt(zmq.SNDTIMEO, 100)
        stranger.send(protocol.encode(Report(0, wants=0, work=True)))
        engine = crew.engine(0)
        engine.send([Report(0, counts=(2, 2))])
        crew.until(lambda: crew.loop.core.counts[0] == (2, 2), "the one with the key")
        assert not crew.loop.core.running
        context.destroy(linger=0)
    finally:
        crew.close()
