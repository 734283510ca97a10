"""The format byte for byte, and the edges of what it carries (SPEC 3, Q4)."""

import pickle

import numpy as np
import pytest

from refengine.base import serialization
from refengine.base.buffer_pool import BufferPool
from refengine.base.serialization import (
    OUT_OF_BAND_FROM,
    Encoder,
    Limits,
    buffer_header,
    check_limits,
    decode,
    encode_short,
    is_plain_bytes,
    read_message,
    read_single,
    split_message,
    write_message,
    write_single,
)
from refengine.errors import EncodingLimit, Unencodable


def laid_out(*buffers: bytes, room: int = 0) -> memoryview:
    chunk = memoryview(bytearray(3 + sum(4 + len(b) for b in buffers) + room))
    write_message(buffers, chunk)
    return chunk


def test_the_constants_of_the_format():
    assert OUT_OF_BAND_FROM == 16_384
    assert (serialization.INLINE, serialization.OVERFLOW, serialization.FRAGMENT) == (0, 1, 2)
    assert serialization.total_of([0]) == serialization.SMALLEST_TOTAL
    assert serialization.SMALLEST_CHUNK == 32


@pytest.mark.parametrize("buffers", [[b"main"], [b"m", b"one", b""], [b"", b"x"]])
def test_one_and_several_buffers_lie_alike(buffers: list[bytes]):
    whole = b"\0" + len(buffers).to_bytes(2, "big")
    for buffer in buffers:
        whole += len(buffer).to_bytes(4, "big") + buffer
    chunk = laid_out(*buffers, room=3)
    assert bytes(chunk) == whole + bytes(3)
    assert read_message(chunk) == buffers
    heads = [buffer_header(i, len(buffers), len(b)) for i, b in enumerate(buffers)]
    assert b"".join(head + b for head, b in zip(heads, buffers, strict=True)) == whole


def test_a_message_of_one_buffer_has_a_short_way_in_and_out():
    chunk = memoryview(bytearray(20))
    write_single(chunk, b"main")
    assert chunk == laid_out(b"main", room=9)
    assert read_single(chunk) == b"main"
    assert read_single(laid_out(b"main", b"x")) is None
    for kind in (1, 2):
        chunk[0] = kind
        assert read_single(chunk) is None


def test_what_is_taken_is_a_copy_and_what_is_split_is_not():
    chunk = laid_out(b"main", b"one", b"two")
    taken, parts = read_message(chunk), split_message(chunk)
    assert taken == parts == [b"main", b"one", b"two"]
    at = 3 + 4 + len(b"main") + 4
    chunk[at] = ord("O")
    assert taken[1] == b"one"
    assert parts[1] == b"One"
    assert not memoryview(taken[1]).readonly


def test_copies_lie_in_recycled_memory_if_there_is_some():
    memory = BufferPool()
    taken = read_message(laid_out(b"main", b"one"), memory)
    assert taken == [b"main", b"one"]
    assert memory._held > 0


@pytest.mark.parametrize("size", [0, 1, 255])
def test_short_bytes_are_a_pickle_of_five_bytes_more(size: int):
    data = bytes(range(256))[:size]
    raw = encode_short(data)
    assert raw is not None
    assert len(raw) == size + 5
    assert pickle.loads(raw) == data


def test_longer_bytes_have_no_short_form():
    assert encode_short(bytes(256)) is None


@pytest.mark.parametrize("obj", [b"x", "x", 1, 1.5, True, None])
def test_simple_objects_are_what_pickle_makes_of_them(obj: object):
    assert Encoder(Limits()).encode(obj) == [pickle.dumps(obj, 5)]


def test_bytes_from_sixteen_kilobytes_on_are_bare():
    for size, bare in ((OUT_OF_BAND_FROM - 1, False), (OUT_OF_BAND_FROM, True)):
        data = bytes(size)
        buffers = Encoder(Limits()).encode(data)
        assert is_plain_bytes(buffers) is bare
        assert len(buffers) == 1 + bare
        chunk = laid_out(*map(bytes, buffers))
        for raw in (read_message(chunk), split_message(chunk)):
            got = decode(raw)
            assert type(got) is bytes
            assert got == data
    for obj in ([bytes(size)], bytearray(size), np.zeros(size, np.uint8)):
        assert not is_plain_bytes(Encoder(Limits()).encode(obj))


def test_limits_are_judged_at_their_edges():
    limits = Limits(max_buffers=2, max_buffer_bytes=10)
    check_limits([10, 10], limits)
    with pytest.raises(EncodingLimit) as caught:
        check_limits([1, 1, 1], limits)
    assert caught.value.facts == ("the number of buffers", 3, 2)
    with pytest.raises(EncodingLimit) as caught:
        check_limits([1, 11], limits)
    assert caught.value.facts == ("a buffer's length", 11, 10)


def test_a_lone_pickle_is_judged_too():
    size = len(pickle.dumps("x" * 100, 5))
    encoder = Encoder(Limits(max_buffer_bytes=size))
    assert encoder.encode("x" * 100)
    with pytest.raises(EncodingLimit):
        encoder.encode("x" * 101)


class Interrupted(BaseException):
    pass


class Fails:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> object:
        raise self.error


@pytest.mark.parametrize("error", [ValueError("no"), Interrupted()])
def test_after_any_failure_the_pickler_is_a_new_one(error: BaseException):
    encoder = Encoder(Limits())
    before = encoder._dumps
    with pytest.raises((Unencodable, Interrupted)) as caught:
        encoder.encode([np.zeros(OUT_OF_BAND_FROM, np.uint8), Fails(error)])
    if isinstance(error, ValueError):
        assert isinstance(caught.value, Unencodable)
        assert (caught.value.type_name, caught.value.__cause__) == ("list", error)
    else:
        assert caught.value is error
    assert encoder._dumps != before
    (main,) = encoder.encode(["x"])
    assert decode([bytes(main)]) == ["x"]


def test_a_pickler_is_kept_while_no_module_comes(monkeypatch: pytest.MonkeyPatch):
    import sys

    encoder = Encoder(Limits())
    encoder.encode([1])
    before = encoder._dumps
    encoder.encode([2])
    assert encoder._dumps == before
    monkeypatch.setitem(sys.modules, "just_come", sys)
    encoder.encode([3])
    assert encoder._dumps != before
