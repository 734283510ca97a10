"""Comings that are taken back: forgotten, and whoever comes next gets and says all of it (R9)."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from refengine.base.security import Keys, SocketFactory
from refengine.transport import Client, Server, protocol, server

from ..roles import until
from .net import Ear

SILENCE = 0.6


class Listening(Ear):
    """Hears of comings that were taken back, too."""

    def __init__(self) -> None:
        super().__init__()
        self.taken_back: list[int] = []

    def unsaid(self, rank: int) -> None:
        with self._news:
            self.taken_back.append(rank)
            self._news.notify_all()


class Place:
    """Hubs, one after the other, at one port, and spokes of rank 1."""

    def __init__(self, undo: ExitStack) -> None:
        self.undo, self.keys, self.port = undo, Keys.fresh(), 0

    def server(self, peer_timeout: float = 10.0) -> tuple[Server, Listening]:
        ear = Listening()
        made = Server("127.0.0.1", self.port, [1], self.keys, ear, **seams(ear, peer_timeout))
        self.undo.callback(made.close, 0.0)
        self.port = int(made.address.rsplit(":", 1)[1])
        return made, ear

    def client(self) -> tuple[Client, Listening]:
        ear = Listening()
        made = Client(f"tcp://127.0.0.1:{self.port}", 1, self.keys, ear, **seams(ear, 10.0))
        self.undo.callback(made.close, 0.0)
        return made, ear


def seams(ear: Listening, peer_timeout: float) -> Any:
    return {"sockets": SocketFactory(), "peer_timeout": peer_timeout, "unsaid": ear.unsaid}


@pytest.fixture
def place() -> Iterator[Place]:
    with ExitStack() as undo:
        yield Place(undo)


def heard(ear: Listening, rank: int, *bodies: bytes) -> None:
    ear.until(lambda: ear.got.get(rank) == [*bodies])


def test_a_spoke_that_takes_its_coming_back_is_forgotten_and_the_next_gets_all(place: Place):
    server, ear = place.server()
    server.settle()
    server.post(1, b"a")
    client, far = place.client()
    client.post(0, b"first")
    heard(far, 0, b"a")
    heard(ear, 1, b"first")
    client.take_back()
    ear.until(lambda: ear.taken_back == [1])
    server.post(1, b"b")
    second, far = place.client()
    second.post(0, b"second")
    heard(far, 0, b"a", b"b")
    heard(ear, 1, b"first", b"second")
    assert (ear.arrivals, ear.ends, ear.refusals) == ([1, 1], {}, [])


def test_a_coming_that_the_hub_has_not_seen_yet_is_taken_back_all_the_same(place: Place):
    _, ear = place.server()
    for _ in range(20):
        place.client()[0].take_back()
    client, far = place.client()
    far.until(lambda: far.arrivals)
    client.post(0, b"here")
    heard(ear, 1, b"here")
    assert (ear.ends, ear.refusals) == ({}, [])
    assert len(ear.arrivals) == len(ear.taken_back) + 1


def test_a_hub_that_takes_its_coming_back_is_forgotten_and_the_next_hears_all(place: Place):
    server, _ = place.server()
    client, far = place.client()
    client.post(0, b"a")
    server.post(1, b"old")
    heard(far, 0, b"old")
    server.take_back()
    far.until(lambda: far.taken_back == [0])
    client.post(0, b"b")
    server, ear = place.server()
    server.post(1, b"new")
    heard(ear, 1, b"a", b"b")
    heard(far, 0, b"old", b"new")
    assert (far.arrivals, far.ends) == ([0, 0], {})


def test_another_hub_in_the_place_of_one_that_left_no_word_is_taken_for_another(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    server, _ = place.server()
    client, far = place.client()
    client.post(0, b"a")
    server.post(1, b"old")
    heard(far, 0, b"old")
    monkeypatch.setattr(server, "_goodbye", lambda _: b"")
    server.close(0.0)
    server, ear = place.server()
    server.post(1, b"new")
    heard(ear, 1, b"a")
    heard(far, 0, b"old", b"new")


def test_the_rank_of_one_that_hung_up_without_a_word_is_free(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    _, ear = place.server()
    client, far = place.client()
    far.until(lambda: far.arrivals)
    monkeypatch.setattr(client, "_goodbye", lambda _: b"")
    client.close(0.0)
    _, far = place.client()
    far.until(lambda: far.arrivals)
    assert ear.refusals == []


def test_a_claim_that_overtakes_the_last_word_of_the_one_before_is_heard_after_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    listening, ear = place.server()
    client, far = place.client()
    far.until(lambda: far.arrivals)
    heard, held = listening._hear, list[Any]()

    def hear(sender: Any, *frames: Any) -> None:
        if frames[0].bytes[0] == protocol.UNSAID:
            held.append((sender, *frames))
            return
        heard(sender, *frames)
        for each in held:
            heard(*each)

    monkeypatch.setattr(listening, "_hear", hear)
    monkeypatch.setattr(server.TcpKeepalive, "hung_up", lambda _: False)
    client.take_back()
    _, far = place.client()
    far.until(lambda: far.arrivals or far.refusals)
    assert (ear.refusals, ear.taken_back) == ([], [1])


def test_a_rank_that_lives_is_not_free(place: Place):
    _, ear = place.server()
    _, far = place.client()
    far.until(lambda: far.arrivals)
    _, second = place.client()
    second.until(lambda: second.refusals)
    assert "another party" in second.refusals[0][1]
    assert (far.ends, ear.taken_back) == ({}, [])


@pytest.mark.parametrize("which", ["spoke", "hub"])
def test_what_has_confirmed_something_has_left(place: Place, which: str):
    server, ear = place.server()
    client, far = place.client()
    server.post(1, b"a")
    client.post(0, b"a")
    heard(far, 0, b"a")
    heard(ear, 1, b"a")
    near, there, rank = (client, ear, 1) if which == "spoke" else (server, far, 0)
    near.settle()
    ends = server._peers[1].session if which == "spoke" else client._session
    until(lambda: ends.handed_over)
    near.take_back()
    there.until(lambda: there.ends)
    assert (there.ends[rank].kind, there.taken_back) == ("closed", [])


def test_who_takes_its_coming_back_confirms_nothing_on_the_way_out(place: Place):
    server, ear = place.server()
    server.post(1, b"a")
    client, far = place.client()
    heard(far, 0, b"a")
    client._settle_at = 0.0  # its time is up in the very turn in which it ends
    client.take_back()
    ear.until(lambda: ear.taken_back or ear.ends)
    assert ear.ends == {}


def test_a_coming_stands_when_its_time_is_over(place: Place):
    server, _ = place.server()
    server.post(1, b"a")
    client, far = place.client()
    heard(far, 0, b"a")
    assert not server._peers[1].session.handed_over
    client.settle(0.05)
    until(lambda: server._peers[1].session.handed_over)


def test_a_settled_hub_waits_for_the_next_one_as_long_as_its_silence(place: Place):
    for settled in (True, False):
        place.port = 0
        server, ear = place.server(SILENCE)
        if settled:
            server.settle()
        client, far = place.client()
        far.until(lambda far=far: far.arrivals)
        client.take_back()
        ear.until(lambda ear=ear: ear.taken_back)
        if settled:
            ear.until(lambda ear=ear: ear.ends)
            assert ear.ends[1].kind == "closed"
        else:
            threading.Event().wait(SILENCE * 1.5)  # that it is told of nothing is what is tested
            assert ear.ends == {}


def test_a_plain_line_knows_nothing_of_it(place: Place):
    ear, far = Ear(), Ear()
    plain = Server("127.0.0.1", 0, [1], place.keys, ear, sockets=SocketFactory())
    place.undo.callback(plain.close, 0.0)
    client = Client(plain.address, 1, place.keys, far, sockets=SocketFactory())
    place.undo.callback(client.close, 0.0)
    far.until(lambda: far.arrivals)
    client.take_back()
    ear.until(lambda: ear.ends)
    assert ear.ends[1].kind == "closed"
