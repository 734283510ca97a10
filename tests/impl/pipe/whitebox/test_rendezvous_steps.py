"""Errors of a rendezvous that fails, with handshake servers that nobody reaches."""

from typing import Any

import pytest

from refengine.base.cleanup import ReleaseStack
from refengine.errors import BarrierFailed, DeadlinePassed, PeerDied
from refengine.pipe import rendezvous
from refengine.pipe.handshake import CONTROL
from refengine.pipe.link import Link

from ..pairs import free_port, links
from ..test_rendezvous import rank_info


class Shut:
    """A server to which no other rank connects until the time is over."""

    def __init__(self, came: dict[tuple[int, int], Link], expected: set[tuple[int, int]]) -> None:
        self.connected, self.expected = came, expected

    @property
    def missing(self) -> set[tuple[int, int]]:
        return self.expected - self.connected.keys()

    def wait(self, *_: object) -> None:
        raise TimeoutError


@pytest.mark.parametrize(
    ("size", "came", "missing", "seconds"),
    [
        (4, [(1, CONTROL), (2, CONTROL), (1, 0)], [3], 0.5),
        (4, [], [1, 2, 3], 0.5),
        (3, [(1, CONTROL), (2, CONTROL), (1, 0)], [2], 0.0),
        (3, [(1, CONTROL), (2, CONTROL), (2, 2)], [1], None),
        (2, [(1, CONTROL), (1, 0), (1, 1)], [1], 0.5),
    ],
)
def test_rank_0_names_those_that_did_not_come_or_have_not_all_their_links(
    size: int,
    came: list[tuple[int, int]],
    missing: list[int],
    seconds: float | None,
    monkeypatch: pytest.MonkeyPatch,
):
    pairs = [links() for _ in came]
    shut: Any = None

    def server(_self: object, _host: str, _port: int, expected: set[tuple[int, int]]) -> Any:
        nonlocal shut
        shut = Shut({who: mine for who, (mine, _) in zip(came, pairs, strict=True)}, expected)
        return shut

    def read(*_: object) -> bytes:
        if shut.missing:
            return bytes(rendezvous._ADDRESS.size)
        raise TimeoutError

    monkeypatch.setattr(rendezvous._Rendezvous, "_server", server)
    monkeypatch.setattr(rendezvous, "_read", read)
    host = rendezvous._Host(rank_info(5000, 0, size), seconds, None, ReleaseStack())
    with pytest.raises(BarrierFailed) as caught:
        host.connect_ring()
    assert caught.value.missing == missing
    assert caught.value.seconds == (seconds or 0)
    for each in pairs:
        for end in each:
            end.close()


@pytest.mark.parametrize("timeout", [0.0, -1.0])
def test_a_rank_without_time_says_how_long_it_has_waited(timeout: float):
    with pytest.raises(DeadlinePassed) as caught:
        rendezvous.connect_ring(rank_info(free_port(), 1, 2), timeout)
    assert caught.value.seconds == timeout
    assert caught.value.waiting_for == "rank 0 to listen"


def test_a_word_that_does_not_come_is_its_ranks_death_and_a_link_never_blocks():
    one, other = links()
    other.sock.send(b"word")
    assert rendezvous._read(one, 4, lambda: 5.0) == b"word"
    assert not one.sock.getblocking()
    other.close()
    with pytest.raises(PeerDied, match=r"rank 1 .*the meeting of the pipe's ranks"):
        rendezvous._read(one, 4, lambda: 5.0)
    assert not one.sock.getblocking()
    one.close()
