"""A tear is found wherever it is: at every held page, and at every byte of a payload."""

from __future__ import annotations

import numpy as np
import pytest

from killpoint.checkers import CHECKERS
from killpoint.points.pages import Protected, Refused
from killpoint.runner.payload import build, digest, intact
from killpoint.runner.stage import Stage
from killpoint.scenario import Fault, FaultName, Message, Point
from killpoint.systems.queue.cases.pages import around_copy

_LAST = 256
"""Page 0 holds the flags; from page 1 on comes the message, of 256 pages and a little."""


@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_a_message_published_before_it_is_copied_is_found_torn_at_any_page(
    fault: FaultName,
) -> None:
    try:
        Protected().end()
    except Refused as refused:
        pytest.skip(str(refused))
    with Stage("mutated:r2_published_before_filled") as stage:
        for page in (1, 2, 3, _LAST // 2, _LAST - 1, _LAST):
            step = Fault(fault, "writer", Point("send", page=page))
            play = stage.play(around_copy("R2/x", fault, step))
            stage.forget(play)
            finding = CHECKERS["R2"](play.scenario, play.history, play.ledger)
            assert finding.violations, f"not found at page {page}"
            assert finding.violations[0].kind in ("wrong-data", "duplicate")


@pytest.mark.parametrize("at", [0, 1, 63, 64, 65, 4095, 4096, 4097, 65535, 65536, 99_998, 99_999])
@pytest.mark.parametrize("kind", ["bytes", "array", "tensor", "nested"])
def test_one_wrong_byte_anywhere_changes_the_digest(kind: str, at: int) -> None:
    message = Message(kind, 100_000)
    sent = build(message, 3, 7, 100_000)
    came = build(message, 3, 7, 100_000)
    assert digest(came) == digest(sent)
    torn = _torn(came, at)
    assert digest(torn) != digest(sent)
    assert not intact(torn)


@pytest.mark.parametrize("length", [1, 64, 4096])
@pytest.mark.parametrize("at", [0, 64, 4096, 50_000, 99_999])
def test_a_stretch_of_an_older_message_anywhere_changes_the_digest(at: int, length: int) -> None:
    message = Message("array", 100_000)
    older, sent = build(message, 0, 4, 100_000), build(message, 0, 5, 100_000)
    came = build(message, 0, 5, 100_000)
    came[2][at : at + length] = older[2][at : at + length]
    assert digest(came) != digest(sent)
    assert not intact(came)


def _torn(obj: object, at: int) -> object:
    seq, crc, body = obj
    if isinstance(body, bytes):
        body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
    elif isinstance(body, dict):
        body["tokens"]["ids"][at] ^= 1
    else:
        body[at] = body[at] ^ np.uint8(1) if isinstance(body, np.ndarray) else int(body[at]) ^ 1
    return seq, crc, body
