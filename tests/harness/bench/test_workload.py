"""The messages: that a reader would see a wrong one."""

from __future__ import annotations

import pytest

from killpoint.bench.workload import (
    KINDS,
    SIZES,
    Kind,
    Payload,
    WrongMessage,
    check,
    maker,
    parse_size,
    show_size,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [64, 4096, 1 << 20])
class TestCheck:
    def test_the_next_message_passes(self, kind: Kind, size: int):
        payload = Payload(kind, size)
        make, look = maker(payload), check(payload)
        for number in range(200):
            look(number, make(number))

    @pytest.mark.parametrize("wrong", [0, 2])
    def test_a_repeated_or_lost_one_does_not(self, kind: Kind, size: int, wrong: int):
        payload = Payload(kind, size)
        with pytest.raises(WrongMessage, match="message 1 expected"):
            check(payload)(1, maker(payload)(wrong))

    def test_a_short_one_does_not(self, kind: Kind, size: int):
        with pytest.raises(WrongMessage):
            check(Payload(kind, size))(0, maker(Payload(kind, size - 8))(0))


class TestLastByte:
    def test_a_torn_end_is_seen(self):
        payload = Payload("array", 4096)
        message = maker(payload)(0)
        message["data"][-1] ^= 1
        with pytest.raises(WrongMessage):
            check(payload)(0, message)


class TestSizes:
    @pytest.mark.parametrize(
        ("text", "size"),
        [
            ("64", 64),
            ("64B", 64),
            ("4KiB", 4096),
            ("4k", 4096),
            (" 23 MiB", 23 << 20),
            ("1M", 1 << 20),
        ],
    )
    def test_a_size_is_read(self, text: str, size: int):
        assert parse_size(text) == size

    @pytest.mark.parametrize("text", ["", "4 GiB", "KiB", "-4", "1.5M", "8", "²M"])
    def test_anything_else_is_refused_in_words(self, text: str):
        with pytest.raises(ValueError, match="expected"):
            parse_size(text)

    def test_what_is_shown_can_be_given_again(self):
        assert [parse_size(show_size(size)) for size in SIZES] == list(SIZES)
