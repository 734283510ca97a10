"""Messages: each can be told apart from every other, whole."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from killpoint.runner.payload import (
    Undecodable,
    Unencodable,
    build,
    checksum,
    digest,
    intact,
    mutate,
    pattern,
    sequence_of,
)
from killpoint.scenario import Message, MessageKind

_KINDS: list[MessageKind] = ["bytes", "array", "arrays", "tensor", "nested", "buffers", "shapes"]


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("size", [0, 1, 7, 8, 1000])
def test_a_message_carries_its_number_and_survives_pickling(kind: MessageKind, size: int) -> None:
    message = build(Message(kind, size, buffers=2), 3, 11, size)
    again = pickle.loads(pickle.dumps(message, protocol=5))
    assert sequence_of(again) == 11
    assert intact(again)
    assert digest(again) == digest(message)


@pytest.mark.parametrize("kind", _KINDS)
def test_the_same_seed_builds_the_same_bytes_and_another_others(kind: MessageKind) -> None:
    message = Message(kind, 64)
    one, same, other = (digest(build(message, seed, 4, 64)) for seed in (1, 1, 2))
    assert one == same
    assert one != other


@settings(max_examples=60)
@given(st.sampled_from(_KINDS), st.integers(1, 300), st.integers(0, 10_000))
def test_one_flipped_byte_changes_the_digest(kind: MessageKind, size: int, at: int) -> None:
    message = build(Message(kind, size), 1, 1, size)
    before = digest(message)
    body = message[2]
    if isinstance(body, bytes):
        torn = bytearray(body)
        torn[at % size] ^= 1
        message = (message[0], message[1], bytes(torn))
    else:
        array = body["tokens"]["ids"] if isinstance(body, dict) else body
        array = array[0] if isinstance(array, list) else array
        array[at % size] ^= 1
    assert digest(message) != before
    assert not intact(message)


@pytest.mark.parametrize("kind", [kind for kind in _KINDS if kind != "bytes"])
def test_what_can_be_changed_in_place_is_changed(kind: MessageKind) -> None:
    message = build(Message(kind, 100), 1, 1, 100)
    before = digest(message)
    assert mutate(message)
    assert digest(message) != before


def test_what_cannot_be_changed_is_left_alone() -> None:
    message = build(Message("bytes", 100), 1, 1, 100)
    before = digest(message)
    assert not mutate(message)
    assert digest(message) == before


def test_failures_on_purpose_fail_where_they_say() -> None:
    packed = pickle.dumps(build(Message("undecodable", 10), 1, 8, 10))
    with pytest.raises(Undecodable, match="message 8"):
        pickle.loads(packed)
    with pytest.raises(Unencodable):
        pickle.dumps(build(Message("unencodable", 10), 1, 8, 10))


def test_words_of_a_message_differ_from_each_other_and_from_other_messages() -> None:
    words = np.concatenate([np.frombuffer(pattern(1, seq, 800), np.uint64) for seq in range(50)])
    assert len(np.unique(words)) == len(words)


def test_no_message_looks_like_untouched_memory() -> None:
    assert any(pattern(0, 0, 8))


def test_layout_is_not_content_but_shape_and_dtype_are() -> None:
    grid = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert digest(grid) == digest(np.asfortranarray(grid))
    assert digest(grid) != digest(grid.reshape(3, 2))
    assert digest(grid) != digest(grid.astype(np.uint16))
    assert digest([1, 2]) != digest((1, 2))


@pytest.mark.parametrize("odd", [None, 7, (1, 2), ("a", 0, b""), [1, 2, 3]])
def test_what_is_no_message_of_ours_has_no_number(odd: object) -> None:
    assert sequence_of(odd) == -1


def test_the_rings_checksum_is_the_contents() -> None:
    data = bytes(pattern(1, 2, 64))
    assert checksum(data) == checksum(memoryview(data))
    assert checksum(data) != checksum(data[:-1] + b"x")


def test_arrays_have_every_byte_order_within_a_few_messages() -> None:
    orders: set[str] = set()
    for seq in range(6):
        arrays = build(Message("arrays", 8), 1, seq, 8)[2]
        orders |= {array.dtype.byteorder for array in arrays}
    assert {"=", ">", "|"} <= orders


def test_values_are_content_in_whatever_byte_order() -> None:
    values = np.arange(4, dtype=">f4")
    swapped = np.frombuffer(values.tobytes(), "<f4")
    assert digest(values) != digest(swapped)
    assert digest(values) == digest(values.astype("<f4"))  # as numpy pickles some arrays


def test_what_cannot_be_encoded_fails_after_arrays_and_names_were() -> None:
    _, _, (body, _) = build(Message("unencodable", 20_000), 1, 8, 20_000)
    assert body["tokens"]["ids"].nbytes == 20_000
