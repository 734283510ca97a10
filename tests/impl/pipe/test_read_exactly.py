"""What is read at a door, with a socket that gives little at a time."""

from typing import Any

from refengine.pipe.handshake import read_exactly


class Slow:
    """Gives two bytes at a time, whatever it is asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.times: list[float] = []

    def settimeout(self, seconds: float) -> None:
        self.times.append(seconds)

    def recv(self, count: int) -> bytes:
        self.asked.append(count)
        return b"ab"[:count]


def test_no_byte_is_read_that_belongs_to_the_next_word():
    sock: Any = Slow()
    left = iter([3.0, 2.0, 1.0])
    assert read_exactly(sock, 5, lambda: next(left)) == b"ababa"
    assert sock.asked == [5, 3, 1]
    assert sock.times == [3.0, 2.0, 1.0]
