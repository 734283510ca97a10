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


class Parties:
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
def parties() -> Iterator[Parties]:
    folder = ownership.new_directory()  # pytest's own is too long for a socket's path
    made = Parties(BindAddress(str(folder)), 2)
    yield made
    made.close()
    ownership.remove_directory(folder)


def test_a_wave_starts_ends_and_front_ends_hear_of_it(parties: Parties) -> None:
    front = parties.front_end()
    parties.hears_first(front)
    first, second = parties.engine(0), parties.engine(1)
    first.send([Report(0, wants=0, work=True)])
    parties.heard(first, Start(0, (0, 1)))
    parties.heard(second, Start(0, (0, 1)))
    parties.now += 0.2
    parties.until(lambda: (s := front.hear()) and s.running, "the news that it runs")
    first.send([Report(0, done=0)])
    parties.heard(front, State(1, False))


def test_a_replica_that_listens_late_is_told_of_the_wave(parties: Parties) -> None:
    parties.engine(0).send([Report(0, wants=0, work=True)])
    parties.until(lambda: parties.loop.core.running, "the wave")
    parties.heard(parties.engine(1), Start(0, (0, 1)))


def test_a_replica_that_ends_is_gone_at_once_and_one_that_returns_is_back(parties: Parties) -> None:
    lost = parties.engine(1)
    parties.engine(0).send([Report(0, wants=0, work=True)])
    parties.heard(lost, Start(0, (0, 1)))
    lost.close()
    parties.until(lambda: parties.loop.core.gone == {1}, "its end")
    assert parties.loop.core.members == (0,)
    parties.engine(1)
    parties.until(lambda: not parties.loop.core.gone, "its return")


def test_a_silent_replica_is_gone_until_it_speaks(parties: Parties) -> None:
    engine = parties.engine(1)
    parties.until(lambda: parties.loop._heartbeats.due() == parties.now + 3.0, "its arrival")
    parties.now += 2.9
    parties.loop.turn(most=0.0)
    assert not parties.loop.core.gone
    parties.now += 0.2
    parties.loop.turn(most=0.0)
    assert parties.loop.core.gone == {1}
    engine.alive()
    parties.until(lambda: not parties.loop.core.gone, "its return")


def test_counts_are_heard_though_messages_never_cease(parties: Parties) -> None:
    engine, front = parties.engine(0), parties.front_end()
    parties.hears_first(front)
    engine.send([Report(0, counts=(5, 1))])
    parties.until(lambda: parties.loop.core.counts[0] == (5, 1), "the counts")
    began = parties.now
    for _ in range(100):
        engine.send([Report(0, counts=(5, 1))] * 10)
        parties.now += 0.01
        parties.loop.turn()  # until they have come
        if parties.loop._schedule.due > parties.now + 0.5:
            break  # it has published
    assert parties.now - began <= 0.25
    parties.until(lambda: (s := front.hear()) and s.counts and s.counts[0] == (5, 1), "the news")


def test_a_jump_of_the_clock_makes_up_for_no_publication(parties: Parties) -> None:
    front = parties.front_end()
    parties.hears_first(front)
    parties.now += 3600.0
    parties.loop.turn(most=0.0)
    assert front.hear(5.0) is not None
    parties.loop.turn(most=0.0)
    assert front.hear(0.02) is None


def test_malformed_messages_are_dropped_alone(parties: Parties) -> None:
    engine, front = parties.engine(0), parties.front_end()
    raw = engine._reports
    for frame in (b"", b"\xc1nonsense", protocol.encode(Report(9, wants=0, work=True))):
        raw.send(frame)
    raw.send_multipart([b"two", b"frames"])
    front._states.send(b"\xc1")
    engine.send([Report(0, counts=(1, 1))])
    parties.until(lambda: parties.loop.core.counts[0] == (1, 1), "what came after them")
    parties.until(
        lambda: parties.loop.malformed == 5, f"five of them (not {parties.loop.malformed})"
    )
    assert not parties.loop.core.running


def test_a_front_end_scales(parties: Parties) -> None:
    front = parties.front_end()
    front.scale(3)
    parties.heard(front, State(0, False, ((0, 0),) * 3))


def test_over_tcp_only_who_has_the_key_is_heard() -> None:
    with pytest.raises(ValueError, match="needs keys"):
        CoordinatorServer(1, BindAddress(host="127.0.0.1"))
    parties = Parties(BindAddress(host="127.0.0.1", keys=Keys.fresh()), 1)
    try:
        context = zmq.Context()
        stranger = context.socket(zmq.PUSH)
        stranger.connect(parties.loop.addresses.reports)
        stranger.setsockopt(zmq.SNDTIMEO, 100)
        stranger.send(protocol.encode(Report(0, wants=0, work=True)))
        engine = parties.engine(0)
        engine.send([Report(0, counts=(2, 2))])
        parties.until(lambda: parties.loop.core.counts[0] == (2, 2), "the one with the key")
        assert not parties.loop.core.running
        context.destroy(linger=0)
    finally:
        parties.close()
