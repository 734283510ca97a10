"""Front end, cores and each other's votes: what is sent arrives as it was; nonsense is an error."""

import pytest

from refengine.engine import wire
from refengine.engine.messages import Beat, Begin, Cancel, Made, Refused, Vote
from refengine.engine.request import Output, Request
from refengine.malformed import Malformed


@pytest.mark.parametrize(
    ("message", "decode"),
    [
        (Begin(Request("a", (1, 2), 3, "l", None, "t")), wire.to_core),
        (Cancel("a"), wire.to_core),
        (Made((Output("a", (1,)), Output("b", (), "stop"))), wire.from_core),
        (Refused("a", "too long"), wire.from_core),
        (Beat(1, 2, 3, 4, 0.5, 6, "its workers"), wire.from_core),
        (Vote(1, 2, 3, 4, 5, unfinished=True, regroup=True), wire.vote),
    ],
)
def test_a_message_arrives_as_it_was(message, decode):
    assert decode(wire.encode(message)) == message


@pytest.mark.parametrize("decode", [wire.to_core, wire.from_core, wire.vote])
def test_nonsense_is_an_error(decode):
    for frame in (b"", b"x", wire.encode(Cancel("a"))[:-1]):
        with pytest.raises(Malformed):
            decode(frame)
