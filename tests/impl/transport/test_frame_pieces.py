"""A body goes to a hub in frames that a hub reads."""

from __future__ import annotations

import pytest

from refengine.base.security import PIECE_BYTES
from refengine.transport.protocol import pieces, whole


@pytest.mark.parametrize(
    ("size", "count"), [(0, 1), (PIECE_BYTES, 1), (PIECE_BYTES + 1, 2), (3 * PIECE_BYTES, 3)]
)
def test_a_body_in_pieces_is_whole_again(size: int, count: int) -> None:
    body = bytes(n % 251 for n in range(size))
    found = [memoryview(piece) for piece in pieces(body)]
    assert [len(found), max(map(len, found)) <= PIECE_BYTES] == [count, True]
    assert whole(found) == body
