"""A crowd comes in full where it is let in, and goes away where nobody is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.runner.network import flood
from killpoint.runner.network.flood import Crowd


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=8) as made:
        yield made


@pytest.fixture
def roomy() -> Iterator[socket.socket]:
    """A backlog that takes all of a batch, however late its listener comes to them."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as made:
        yield made


def _flooded(listener: socket.socket, folder: Path) -> int:
    """How many of a crowd arrived at it, as the crowd says."""
    log = Log(folder / "stranger-1.jsonl", "stranger-1")
    crowd = Crowd(log)
    try:
        crowd.flood([listener.getsockname()])
    finally:
        crowd.close()
        log.close()
    (told,) = History.read(folder).of("stranger-flooded")
    assert told.number("asked") == 1200
    assert told.data["able"] is True
    return told.number("arrived")


def test_all_come_to_a_listener_that_takes_them(
    roomy: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flood, "_POURS", 1 << 16)
    taken: list[bytes] = []

    def take() -> None:
        with ExitStack() as kept:
            for _ in range(1201):  # with the one that pours
                line = kept.enter_context(roomy.accept()[0])
                line.setblocking(False)
                taken.append(b"")

    taker = threading.Thread(target=take, daemon=True)
    taker.start()
    assert _flooded(roomy, tmp_path) == 1200
    taker.join(30)
    assert len(taken) == 1201


def test_a_listener_that_takes_nobody_is_left_after_a_while(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flood, "_FULL_AFTER", 0.3)
    monkeypatch.setattr(flood, "_AT_ONCE_WITHIN", 0.1)
    monkeypatch.setattr(flood, "_POURS", 1 << 16)
    assert 0 < _flooded(listener, tmp_path) < 30


def test_a_stranger_without_descriptors_says_so(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_host: str, _port: int) -> None:
        return None

    monkeypatch.setattr(flood, "_line", none_left)
    log = Log(tmp_path / "stranger-1.jsonl", "stranger-1")
    Crowd(log).flood([listener.getsockname()])
    log.close()
    (told,) = History.read(tmp_path).of("stranger-flooded")
    assert (told.number("arrived"), told.data["able"]) == (0, False)


def test_most_of_a_crowd_says_nothing_whole() -> None:
    quiet = [flood.said_by(n) for n in range(1200)].count(b"")
    assert quiet == 500
    loud = [said for n in range(1200) if len(said := flood.said_by(n)) > 11]
    assert len(loud) == 100
