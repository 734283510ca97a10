"""What has come of a transfer, without a link."""

from refengine.pipe.arrival import Arrival, Filling
from refengine.pipe.frames import HEADER_BYTES, Header, Kind, Metadata

from .pairs import SESSION, ToBytes


def test_memory_fills_from_its_beginning_and_its_account_stays_short():
    filling = Filling(memoryview(bytearray(10)))
    filling.came += [3, 2]
    assert len(filling.missing()) == 5
    assert filling.came == [5]
    filling.came.append(5)
    assert not len(filling.missing())
    assert filling.came == [10]


def test_what_follows_a_header_has_the_room_that_it_announces():
    inlet = ToBytes()
    for header, rooms in (
        (Header(Kind.FAILED, 7, follows=3), []),
        (Header(Kind.TENSOR, 7, Metadata("uint8", (5,)), follows=5), [5]),
    ):
        arrival = Arrival(7, SESSION, 100)
        head = arrival.filling(inlet)
        assert len(head.missing()) == HEADER_BYTES
        assert arrival.header is None
        head.memory[:] = header.pack(SESSION)
        head.came.append(HEADER_BYTES)
        body = arrival.filling(inlet)
        assert arrival.header is not None
        assert arrival.header.kind is header.kind
        assert len(body.missing()) == header.follows
        assert arrival.filling(inlet) is body
        assert inlet.rooms == rooms
