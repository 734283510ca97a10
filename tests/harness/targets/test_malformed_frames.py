"""Frames that no decoder may take."""

from __future__ import annotations

import msgspec
import pytest

from killpoint.targets.malformed_frames import DEEP, NOT_TEXT, fuzzed


def test_mutants_are_the_same_each_time_and_none_is_messagepack() -> None:
    message = msgspec.msgpack.encode(["report", 1, None, [3, 4]])
    found = fuzzed(message)
    assert found == fuzzed(message) != fuzzed(message + b"x")
    assert len(found) == 64
    for each in found:
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
            msgspec.msgpack.decode(each)


@pytest.mark.parametrize(
    ("frame", "error"), [(NOT_TEXT, UnicodeDecodeError), (DEEP, RecursionError)]
)
def test_some_raise_what_a_decoder_does_not_promise(frame: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        msgspec.msgpack.decode(frame)
