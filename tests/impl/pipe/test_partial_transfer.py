"""What has come of a transfer, without a link."""

from refengine.pipe.protocol import HEADER_BYTES, Header, Kind, Metadata
from refengine.pipe.receiver import PartialRead, PartialTransfer

from .pairs import SESSION, ToBytes


def test_memory_fills_from_its_beginning_and_its_account_stays_short():
    pending = PartialRead(memoryview(bytearray(10)))
    pending.received += [3, 2]
    assert len(pending.missing()) == 5
    assert pending.received == [5]
    pending.received.append(5)
    assert not len(pending.missing())
    assert pending.received == [10]


def test_what_follows_a_header_has_the_room_that_it_announces():
    transport = ToBytes()
    for header, rooms in (
        (Header(Kind.FAILED, 7, follows=3), []),
        (Header(Kind.TENSOR, 7, Metadata("uint8", (5,)), follows=5), [5]),
    ):
        partial = PartialTransfer(7, SESSION, 100)
        head = partial.pending(transport)
        assert len(head.missing()) == HEADER_BYTES
        assert partial.header is None
        head.memory[:] = header.pack(SESSION)
        head.received.append(HEADER_BYTES)
        body = partial.pending(transport)
        assert partial.header is not None
        assert partial.header.kind is header.kind
        assert len(body.missing()) == header.follows
        assert partial.pending(transport) is body
        assert transport.rooms == rooms
