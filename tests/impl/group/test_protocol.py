"""What goes over the line, byte for byte: ranks of one group may be of two releases (SPEC 4)."""

import pytest

from refengine.base.serialization import decode, read_message
from refengine.group import protocol
from refengine.group.protocol import (
    HEAD_BYTES,
    Channel,
    Kind,
    pack,
    pack_bodies,
    pack_object,
    pack_ranks,
    unpack,
    unpack_bodies,
    unpack_ranks,
)


def test_the_numbers_on_the_wire_are_these():
    assert [(kind.name, int(kind)) for kind in Kind] == [
        ("LETTER", 1),
        ("CAST", 2),
        ("COME", 3),
        ("WITHDRAW", 4),
        ("ASK", 5),
        ("WHO", 6),
        ("MET", 7),
        ("GONE", 8),
        ("LEAVING", 9),
        ("SEEN", 10),
    ]
    channels = [(channel.name, int(channel)) for channel in Channel]
    assert channels == [("START", 0), ("BARRIER", 1), ("GATHER", 2)]


def test_a_head_is_kind_source_target_number_big_endian():
    raw = pack(Kind.WHO, 2, 3, 4, b"body")
    head = b"\x06" + b"\0\0\0\2" + b"\0\0\0\3" + b"\0\0\0\0\0\0\0\4"
    assert raw == head + b"body"
    assert len(head) == HEAD_BYTES


def test_what_is_not_said_is_zero():
    assert unpack(pack(Kind.SEEN, 5)) == (Kind.SEEN, 5, 0, 0, b"")


def test_a_head_alone_is_a_frame_and_one_byte_less_is_none():
    raw = pack(Kind.ASK, 1, 2, 3)
    assert unpack(raw) == (Kind.ASK, 1, 2, 3, b"")
    with pytest.raises(ValueError, match=f"at least {HEAD_BYTES} bytes, not {HEAD_BYTES - 1}"):
        unpack(raw[:-1])


def test_an_object_lies_behind_the_head_and_nothing_behind_it():
    raw = pack_object(Kind.CAST, 7, 8, 9, [1, 2])
    frame = unpack(raw)
    assert frame[:4] == (Kind.CAST, 7, 8, 9)
    assert decode(read_message(frame.body)) == [1, 2]
    size = int.from_bytes(frame.body[3:7], "big")
    assert len(frame.body) == 7 + size


@pytest.mark.parametrize("bodies", [[], [b""], [b"a"], [b"", b"abc", b"", b"de"]])
def test_several_bodies_come_back_as_they_were(bodies: list[bytes]):
    raw = pack_bodies(bodies)
    assert len(raw) == sum(8 + len(body) for body in bodies)
    assert unpack_bodies(memoryview(raw)) == bodies


def test_ranks_take_four_bytes_each():
    raw = pack_ranks([0, 1, 70_000])
    assert raw == b"\0\0\0\0\0\0\0\1\0\1\x11\x70"
    assert unpack_ranks(memoryview(raw)) == [0, 1, 70_000]
    assert unpack_ranks(memoryview(pack_ranks([]))) == []


def test_a_body_can_be_a_view_of_what_came():
    view = memoryview(b"xabcx")[1:4]
    assert unpack_bodies(memoryview(protocol.pack_bodies([view]))) == [b"abc"]
