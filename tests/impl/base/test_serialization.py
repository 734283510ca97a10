"""The encoder: Q1, Q3, Q4, R6, without any queue."""

import struct
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from refengine.base.serialization import (
    OUT_OF_BAND_FROM,
    Encoder,
    Limits,
    decode,
    overflows,
    read_message,
    read_overflow_marker,
    total_of,
    write_message,
    write_overflow_marker,
)
from refengine.errors import EncodingLimit, Unencodable

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def through(obj: object, encoder: Encoder | None = None):
    buffers = (encoder or Encoder(Limits())).encode(obj)
    chunk = memoryview(bytearray(total_of([len(b) for b in buffers]) + 1))
    write_message(buffers, chunk)
    taken = read_message(chunk)
    chunk[:] = b"\xee" * len(chunk)  # the slot is the writer's again (R6)
    return decode(taken)


@given(plain)
def test_every_plain_object_arrives_equal(obj: object):
    assert through(obj) == obj


@given(st.lists(plain, min_size=2, max_size=5))
def test_the_kept_pickler_remembers_nothing(objs: list[object]):
    encoder = Encoder(Limits())
    assert [through(o, encoder) for o in objs] == objs


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("nbytes", [OUT_OF_BAND_FROM - 1, OUT_OF_BAND_FROM, OUT_OF_BAND_FROM + 1])
def test_large_buffers_go_out_of_band_and_arrive_writable(count: int, nbytes: int):
    arrays = [np.full(nbytes, i, np.uint8) for i in range(count)]
    buffers = Encoder(Limits()).encode(arrays)
    assert len(buffers) == 1 + (count if nbytes >= OUT_OF_BAND_FROM else 0)
    for sent, got in zip(arrays, through(arrays), strict=True):
        assert np.array_equal(sent, got)
        got[:] = 7


@pytest.mark.parametrize("dtype", ["?", "b", "<i4", ">i4", "f8", "F", "S5", "M8[s]", "O"])
def test_arrays_of_every_kind_arrive_equal(dtype: str):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype if dtype != "M8[s]" else "i8").astype(dtype)
    for view in (array, array.T, array[::2], np.asfortranarray(array), array[:0], array[0, 0, 0:1]):
        got = through(view)
        assert got.dtype == view.dtype
        assert np.array_equal(got, view)


def test_tensors_arrive_equal_large_ones_out_of_band():
    big = torch.arange(300_000, dtype=torch.float32)
    assert len(Encoder(Limits()).encode({"t": big})) == 2
    got = through({"t": big})["t"]
    assert torch.equal(got, big)
    got += 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.int64, torch.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_small_tensors_of_every_kind_arrive_equal(dtype: torch.dtype, shape: tuple[int, ...]):
    tensor = torch.ones(shape).to(dtype)
    got = through(tensor)
    assert got.dtype == dtype
    assert got.shape == tensor.shape
    assert torch.equal(got, tensor)


@pytest.mark.parametrize("dtype", [torch.complex128, torch.float32, torch.uint8])
def test_one_element_that_was_cut_out_of_a_row_arrives(dtype: torch.dtype):
    tensor = torch.arange(1, 4).to(dtype)[::3]
    assert tensor.stride() != (1,)  # and it is contiguous all the same
    assert torch.equal(through(tensor), tensor)


def test_tensors_that_are_not_plain_arrive_too():
    for tensor in (torch.ones(3, requires_grad=True), torch.eye(3).to_sparse(), torch.ones(4, 4).T):
        got = through(tensor)
        assert torch.equal(got.to_dense(), tensor.to_dense())
        assert got.requires_grad == tensor.requires_grad


def test_nothing_decoded_aliases_the_slot():
    array = np.arange(1 << 18, dtype=np.int64)
    assert np.array_equal(through(array), array)


@pytest.mark.parametrize("main", [0, 1, 100])
@pytest.mark.parametrize("others", [[], [5], [0, 3, 9]])
def test_the_total_is_the_one_of_the_format(main: int, others: list[int]):
    expected = 6 + main + sum(n + 4 for n in others)
    assert total_of([main, *others]) == expected


def test_the_largest_inline_message_fills_its_chunk_exactly():
    buffers = Encoder(Limits()).encode(b"x" * 100)
    total = total_of([len(b) for b in buffers])
    assert overflows(total, total)
    assert not overflows(total, total + 1)
    chunk = memoryview(bytearray(total + 1))
    write_message(buffers, chunk)
    assert read_message(chunk) == [bytes(buffers[0])]


def test_the_wire_form_is_the_one_of_the_format():
    chunk = memoryview(bytearray(18))
    write_message([b"main", memoryview(b"oob")], chunk)
    assert bytes(chunk) == struct.pack(">BHI4sI3s", 0, 2, 4, b"main", 3, b"oob")


@pytest.mark.parametrize("room", [0, 1, 62, 63, 64])
@pytest.mark.parametrize("large", [np.arange, torch.arange])
def test_the_first_large_buffer_is_aligned_where_the_chunk_has_room(large: Callable, room: int):
    sent = [large(OUT_OF_BAND_FROM), large(OUT_OF_BAND_FROM), "and more"]
    buffers = Encoder(Limits()).encode(sent)
    total = total_of([len(b) for b in buffers])
    chunk = memoryview(bytearray(total + 1 + room))
    write_message(buffers, chunk, room)
    (said,) = struct.unpack_from(">I", chunk, 3)
    needed = -(11 + len(buffers[0])) % 64
    assert said == len(buffers[0]) + (needed if needed <= room else 0)
    assert bytes(chunk[11 + said : 11 + said + len(buffers[1])]) == bytes(buffers[1])
    arrived = decode(read_message(chunk))
    assert [a.tolist() for a in arrived[:2]] == [a.tolist() for a in sent[:2]]
    assert arrived[2] == sent[2]


def test_a_marker_carries_id_and_size():
    chunk = memoryview(bytearray(32))
    write_overflow_marker(chunk, 2**40, 2**33)
    assert chunk[0] == 1
    assert read_overflow_marker(chunk) == (2**40, 2**33)


def test_limits_are_judged_and_the_encoder_works_on():
    encoder = Encoder(Limits(max_buffers=2, max_buffer_bytes=2 * OUT_OF_BAND_FROM))
    one = np.zeros(OUT_OF_BAND_FROM, np.uint8)
    assert len(encoder.encode([one])) == 2
    with pytest.raises(EncodingLimit, match="number of buffers"):
        encoder.encode([one, one.copy()])
    with pytest.raises(EncodingLimit, match="length"):
        encoder.encode(b"x" * (2 * OUT_OF_BAND_FROM + 1))
    assert through([1, 2], encoder) == [1, 2]
    assert np.array_equal(through(one, encoder), one)


def test_what_cannot_be_pickled_is_refused_and_the_encoder_works_on():
    encoder = Encoder(Limits())
    with pytest.raises(Unencodable) as caught:
        encoder.encode([np.zeros(OUT_OF_BAND_FROM, np.uint8), lambda: 0])
    assert caught.value.__cause__ is not None
    assert through({"a": [1]}, encoder) == {"a": [1]}


@pytest.mark.parametrize("room", [0, 100])
@pytest.mark.parametrize("size", [OUT_OF_BAND_FROM - 1, OUT_OF_BAND_FROM, 3 * OUT_OF_BAND_FROM])
def test_lone_bytes_arrive_as_bytes_and_are_not_pickled_when_large(size: int, room: int):
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    buffers = Encoder(Limits()).encode(data)
    assert (len(buffers) == 2) == (size >= OUT_OF_BAND_FROM)
    chunk = memoryview(bytearray(total_of([len(b) for b in buffers]) + 1 + room))
    write_message(buffers, chunk, room)
    taken = read_message(chunk)
    chunk[:] = bytes(len(chunk))
    arrived = decode(taken)
    assert type(arrived) is bytes
    assert arrived == data


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 1 << 20])
def test_arrays_of_every_size_arrive_writable(size: int):
    buffers = Encoder(Limits()).encode(np.full(size, 7, np.uint8))
    chunk = memoryview(bytearray(total_of([len(b) for b in buffers]) + 1))
    write_message(buffers, chunk)
    arrived = decode(read_message(chunk))
    assert arrived.flags.writeable
    assert (arrived == 7).all()
