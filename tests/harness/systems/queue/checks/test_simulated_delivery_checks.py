"""The judge of simulated runs: each wrong delivery is told as what it is."""

from __future__ import annotations

import pytest

from killpoint.systems.queue.checks.simulated_delivery import Delivered, delivered

_SENT = [b"one", b"two", b"three"]


def _run(*got: bytes, **known: object) -> Delivered:
    return Delivered(_SENT, {"reader-0": list(got)}, **known)


def test_each_once_in_order_is_right() -> None:
    assert delivered(_run(*_SENT)) is None


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        (_run(b"one", b"one", b"three"), "duplicate", "message 0 again"),
        (_run(b"one", b"three"), "lost", "message 2 in the place of message 1"),
        (_run(b"one", b"tree", b"three"), "wrong-data", "nobody sent"),
        (_run(*_SENT, b"more"), "wrong-data", "nobody sent"),
        (_run(b"one"), "lost", "1 of 3"),
        (_run(b"one", failed={"reader-0": "EOFError: "}), "wrong-data", "decode message 1"),
        (_run(*_SENT, failed={"writer": "OSError: "}), "crash", "writer"),
        (_run(b"one", how="deadlock", waiting={"writer": "a slot"}), "hang", "writer waited"),
        (_run(b"one", how="livelock"), "hang", "livelock"),
        (_run(b"one", how="starvation"), "starved", "others"),
    ],
)
def test_what_is_wrong_is_told(run: Delivered, kind: str, words: str) -> None:
    found = delivered(run)
    assert found is not None
    assert found.kind == kind
    assert words in found.cause
