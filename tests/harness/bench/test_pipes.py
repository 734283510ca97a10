"""The pipe's bench: its floor carries, its orders notice what is wrong, ratios come first."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

from killpoint.bench.machine import Meanwhile, look
from killpoint.bench.pipes import show
from killpoint.bench.pipes.orders import PipeOf, PipeOrders
from killpoint.bench.pipes.plain_socket import SocketPipe
from killpoint.bench.pipes.run import PipeOutcome, PipePace
from killpoint.bench.run import Figures
from killpoint.runner.network.group_rendezvous import free_port


def outcome() -> PipeOutcome:
    trips = {
        "ours": Figures([10.0, 20.0], [9.0, 13.0]),
        "theirs": Figures([30.0, 40.0], [24.0, 30.0]),
        "broken": Figures(missing="it did not start", failed=True),
        "without": Figures(missing="it has no pipe here"),
    }
    quiet = Meanwhile(9.0, 1.0, 0.0, 0.0, (0.0, 0.0, 0.0))
    return PipeOutcome("ours", {"ours": "1"}, {}, look(), PipePace(), 0, trips, quiet)


class Exchanged(SocketPipe):
    """Loses the last byte."""

    def pipe_recv(self, end: Any, timeout: float | None) -> Any:
        found = super().pipe_recv(end, timeout)
        return found if found is None else found[:-1]


def opened(*peers: Any) -> list[PipeOrders]:
    orders, port = [PipeOrders(each) for each in peers], free_port("127.0.0.1")
    made = [
        threading.Thread(target=each.pipe_make, args=(rank, PipeOf(), "127.0.0.1", port, 1000))
        for rank, each in enumerate(orders)
    ]
    for each in made:
        each.start()
    for each in made:
        each.join(30.0)
    return orders


def test_the_floor_carries_and_ends() -> None:
    sender, receiver = opened(SocketPipe(), SocketPipe())
    takes = threading.Thread(target=receiver.pipe_takes, args=(3,))
    takes.start()
    assert len(sender.pipe_trips(3)) == 3
    takes.join(10.0)
    for each in (sender, receiver):
        each.pipe_close()
        each.pipe_close()


def test_what_arrives_changed_is_noticed() -> None:
    sender, receiver = opened(SocketPipe(), Exchanged())
    seen: list[BaseException] = []

    def trip() -> None:
        try:
            sender.pipe_trips(1)
        except (EOFError, OSError) as error:
            seen.append(error)

    trips = threading.Thread(target=trip)
    trips.start()
    with pytest.raises(ValueError, match="not what was sent"):
        receiver.pipe_takes(1)
    receiver.pipe_close()
    trips.join(10.0)
    assert seen
    sender.pipe_close()


def test_a_target_without_a_pipe_says_so() -> None:
    assert not PipeOrders(object()).pipe_make(0, PipeOf(), "127.0.0.1", 1, 1000)


def test_pairs_give_ratios_above_one_where_the_target_is_faster() -> None:
    ratio = outcome().ratio("theirs")
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high) == (2.5, 2.0, 3.0)
    assert outcome().ratio("broken") is None
    assert outcome().failures() == ["broken: it did not start"]


def test_the_report_says_ratios_before_figures() -> None:
    text = show.text(outcome())
    assert text.index("to theirs: 2.5 [2, 3]") < text.index("ours: 15 (10 - 20) ms, 4.47 GB/s")
    assert "without: - (it has no pipe here)" in text


def test_the_data_has_every_sample_and_the_ratios() -> None:
    found = msgspec.json.decode(show.json(outcome()))
    assert found["trips"]["theirs"]["samples"] == [30.0, 40.0]
    assert found["ratios"]["theirs"]["median"] == 2.5
