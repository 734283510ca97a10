"""Front end, cores and each other's votes: what is sent arrives as it was; nonsense is an error."""

import pytest

from refengine.base.frame_decoding import Malformed
from refengine.engine import protocol
from refengine.engine.protocol import (
    AddRequest,
    Cancel,
    Heartbeat,
    Output,
    Outputs,
    Refused,
    Request,
    Vote,
)


@pytest.mark.parametrize(
    ("message", "decode"),
    [
        (AddRequest(Request("a", (1, 2), 3, "l", None, "t")), protocol.decode_to_core),
        (Cancel("a"), protocol.decode_to_core),
        (Outputs((Output("a", (1,)), Output("b", (), "stop"))), protocol.decode_from_core),
        (Refused("a", "too long"), protocol.decode_from_core),
        (Heartbeat(1, 2, 3, 4, 0.5, 6, "its workers"), protocol.decode_from_core),
        (Vote(1, 2, 3, 4, 5, unfinished=True, regroup=True), protocol.decode_vote),
    ],
)
def test_a_message_arrives_as_it_was(message, decode):
    assert decode(protocol.encode(message)) == message


@pytest.mark.parametrize(
    "decode", [protocol.decode_to_core, protocol.decode_from_core, protocol.decode_vote]
)
def test_nonsense_is_an_error(decode):
    for frame in (b"", b"x", protocol.encode(Cancel("a"))[:-1]):
        with pytest.raises(Malformed):
            decode(frame)
