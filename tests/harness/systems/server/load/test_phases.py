"""Phases of the clients: a fault strikes in the middle of answers, whatever the server's pace."""

from typing import Any, cast

import pytest

from killpoint.systems.server.load.clients import Load, Open

FOUR: Any = [None] * 4  # clients: two of them stream


def load(together: int, *streams: int) -> Load:
    """A load whose streams have had so many pieces; two clients wait for whole answers."""
    made = Load(cast("Any", None), cast("Any", None), FOUR, together=together)
    made.open = {n: Open(n, True, pieces=pieces) for n, pieces in enumerate(streams)}
    made.open |= {n: Open(n, False) for n in (2, 3)}
    return made


@pytest.mark.parametrize(
    ("pieces", "amid"), [((5, 2), True), ((5, 1), False), ((5, 0), False), ((5,), False)]
)
def test_all_streams_of_a_server_that_answers_several_at_once_are_amid(
    pieces: tuple[int, ...], amid: bool
):
    assert load(2, *pieces).in_decode() is amid


@pytest.mark.parametrize(("pieces", "amid"), [((5, 0), True), ((1, 0), False), ((0, 0), False)])
def test_one_stream_of_a_server_that_answers_one_at_a_time_is_enough(
    pieces: tuple[int, ...], amid: bool
):
    assert load(1, *pieces).in_decode() is amid


def test_a_client_that_asks_once_is_no_sign():
    made = load(1, 0, 0)
    made.open[9] = Open(0, True, by="open-loop", pieces=7)
    assert not made.in_decode()
