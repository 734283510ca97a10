from collections.abc import Callable
from typing import Any

import pytest

from refengine.pipe.block_receiver import BlockReceiver, Incoming
from refengine.pipe.protocol import (
    LABEL_BYTES,
    BlockLabel,
    BlockMessage,
    request_digest,
    shape_checksum,
)

A, B = request_digest("a"), request_digest("b")
ONE, TWO = b"1" * 16, b"2" * 16


class Block:
    def __init__(self, dtype: str = "float32", shape: tuple[int, ...] = (4,)) -> None:
        self.dtype, self.shape, self.nbytes = dtype, shape, 16


BLOCK = Block()


def label(index: int = 0, count: int = 2, **more) -> BlockLabel:
    told = {"transfer": ONE, "request": A, "lease": 5.0, "checksum": shape_checksum(BLOCK), **more}
    return BlockLabel(BlockMessage.BLOCK, index=index, count=count, **told)


def block_receiver(most: int = 1000) -> BlockReceiver:
    return BlockReceiver(most, shape_checksum)


def whole() -> BlockReceiver:
    found = block_receiver()
    found.block(label(0), BLOCK, 0.0)
    found.block(label(1), BLOCK, 1.0)
    return found


def state(found: BlockReceiver, request: bytes = A) -> tuple[str, str]:
    one = found.of(request)
    assert one is not None
    return one.state, one.reason


def test_all_blocks_in_order_are_whole_and_served_once_granted():
    found = block_receiver()
    found.block(label(0), BLOCK, 0.0)
    assert state(found) == ("coming", "")
    other = Block()
    found.block(label(1), other, 1.0)
    assert state(found) == ("whole", "")
    found.granted(TWO)
    assert state(found) == ("whole", "")
    found.granted(ONE)
    one = found.of(A)
    assert one is not None
    assert one.state == "granted"
    assert one.blocks == [BLOCK, other]
    assert found.nbytes == 32
    taken: list[Incoming] = []
    assert found.take(one, taken)
    assert not found.take(one, taken)
    assert taken == [one]
    assert found.of(A) is None
    found.put_back(taken)
    assert found.of(A) is one
    assert not taken


def test_what_has_no_bytes_counts_for_none():
    found = block_receiver()
    found.block(label(0, checksum=shape_checksum(None)), None, 0.0)
    assert found.nbytes == 0
    found.block(label(1), BLOCK, 0.0)
    assert found.nbytes == 16


def test_a_request_without_blocks_is_whole_at_once():
    found = block_receiver()
    found.block(label(0, 0, checksum=shape_checksum(None)), None, 0.0)
    assert state(found) == ("whole", "")
    assert found.nbytes == 0


@pytest.mark.parametrize(
    ("second", "block", "now", "why"),
    [
        (label(0), BLOCK, 1.0, "block 0 came twice"),
        (label(2, 2), BLOCK, 1.0, "block 1 is missing, 2 came"),
        (label(1, 3), BLOCK, 1.0, "block 1 says that there are 3, not 2"),
        (label(1), Block("int8"), 1.0, "block 1 is not of the type and shape"),
        (label(1), Block(shape=(2, 2)), 1.0, "block 1 is not of the type and shape"),
        (label(1), BLOCK, 5.0, "block 1 came after the lease"),
    ],
)
def test_what_is_wrong_with_one_block_fails_all(
    second: BlockLabel, block: Block, now: float, why: str
):
    found = block_receiver()
    found.block(label(0), BLOCK, 0.0)
    found.block(second, block, now)
    assert state(found)[0] == "failed"
    assert why in state(found)[1]
    found.granted(ONE)
    found.block(label(1), BLOCK, 1.0)
    assert state(found)[0] == "failed"
    assert found.nbytes == 0


def test_a_first_block_that_is_lost_fails_all():
    found = block_receiver()
    found.block(label(1), BLOCK, 0.0)
    assert state(found) == ("failed", "block 0 is missing, 1 came")


def test_a_block_repeated_when_all_had_come_fails_them():
    found = whole()
    found.block(label(1), BLOCK, 2.0)
    assert state(found) == ("failed", "block 1 came twice")


def test_what_was_granted_stays_so():
    found = whole()
    found.granted(ONE)
    found.block(label(1), BLOCK, 2.0)
    found.failed(ONE)
    assert state(found)[0] == "granted"


def test_a_transfer_that_began_later_takes_the_place_of_an_older():
    found = block_receiver()
    found.block(label(0), BLOCK, 0.0)
    found.block(label(0, transfer=TWO), BLOCK, 1.0)
    found.block(label(1), BLOCK, 1.0)  # of the older one: stale
    assert state(found) == ("coming", "")
    found.block(label(1, transfer=TWO), BLOCK, 1.0)
    assert state(found) == ("whole", "")
    found.granted(ONE)
    assert state(found) == ("whole", "")


def test_one_that_was_granted_is_taken_before_one_that_began_later():
    found = whole()
    found.granted(ONE)
    found.block(label(0, transfer=TWO), BLOCK, 1.0)
    first = found.of(A)
    assert first is not None
    assert (first.transfer, first.state) == (ONE, "granted")
    assert found.nbytes == 48
    taken: list[Incoming] = []
    assert found.take(first, taken)
    assert state(found) == ("coming", "")
    found.put_back(taken)
    assert found.of(A) is first
    assert found.take(first, taken)
    found.block(label(1, transfer=TWO), BLOCK, 1.0)
    assert state(found) == ("whole", "")


def test_who_takes_one_leaves_what_has_come_since():
    found = whole()
    found.failed(ONE)
    first = found.of(A)
    assert first is not None
    found.block(label(0, transfer=TWO), BLOCK, 1.0)
    taken: list[Incoming] = []
    assert not found.take(first, taken)
    assert not taken
    assert state(found) == ("coming", "")


def test_a_block_of_another_request_fails_a_transfer():
    found = block_receiver()
    found.block(label(0), BLOCK, 0.0)
    found.block(label(1, request=B), BLOCK, 0.0)
    assert state(found) == ("failed", "block 1 is of another request")
    assert found.of(B) is None


class Failed(Incoming):
    """While it is looked at, another call takes one that is kept."""

    take: Callable[[], object]

    def __getattribute__(self, name: str) -> Any:
        if name == "state":
            super().__getattribute__("take")()
        return super().__getattribute__(name)


def test_one_may_be_taken_while_another_fails():
    found = block_receiver()
    for each in range(3):
        name = each.to_bytes(16, "big")
        found.block(label(1, transfer=name, request=name), BLOCK, 0.0)
    first, second = (found.of(each.to_bytes(16, "big")) for each in range(2))
    assert first is not None
    assert second is not None
    first.__class__ = Failed
    first.take = lambda: found.take(second, [])
    found.block(label(1), BLOCK, 0.0)
    assert state(found) == ("failed", "block 0 is missing, 1 came")
    assert found.of(second.request) is None


def test_requests_are_apart():
    found = block_receiver()
    found.block(label(0), BLOCK, 0.0)
    found.block(label(0, request=B, transfer=TWO), BLOCK, 0.0)
    found.block(label(1, request=B, transfer=TWO), BLOCK, 0.0)
    assert (state(found)[0], state(found, B)[0]) == ("coming", "whole")


def test_a_sender_that_gives_up_fails_what_has_come_and_what_comes():
    found = whole()
    found.failed(ONE)
    assert state(found) == ("failed", "its sender gave it up")
    found = block_receiver()
    found.failed(ONE)
    found.block(label(0), BLOCK, 0.0)
    assert found.of(A) is None


def test_a_lease_ends_a_transfer_in_any_state():
    found = whole()
    assert found.expire(1.0) == 4.0
    assert found.expire(4.75) == 0.25
    found.granted(ONE)
    one = found.of(A)
    assert found.expire(5.0) is None
    assert found.of(A) is None
    assert one is not None
    assert not found.take(one, [])
    found.block(label(0), BLOCK, 5.0)
    assert found.of(A) is None


def test_one_for_which_there_is_no_room_is_failed():
    found = block_receiver(most=31)
    found.block(label(0), BLOCK, 0.0)
    found.block(label(1), BLOCK, 0.0)
    assert state(found) == ("failed", "there is no room for more than 31 bytes")
    assert found.nbytes == 0


def test_failures_that_nobody_asks_for_are_bounded():
    found = block_receiver()
    for each in range(1100):
        name = each.to_bytes(16, "big")
        found.block(label(1, transfer=name, request=name), BLOCK, 0.0)
    assert found.of((0).to_bytes(16, "big")) is None
    assert found.of((1099).to_bytes(16, "big")) is not None
    assert found.of((1100 - 1024).to_bytes(16, "big")) is not None
    assert found.of((1100 - 1025).to_bytes(16, "big")) is None


def test_a_label_is_told_whole_and_anything_else_is_none():
    told = label(3, 7, lease=1.5)
    raw = told.pack().ljust(LABEL_BYTES, b"\0")
    assert BlockLabel.unpack(raw) == told
    assert BlockLabel.unpack(b"") is None
    assert BlockLabel.unpack(bytes(LABEL_BYTES)) is None
    assert BlockLabel.unpack(raw[:4] + b"\x09" + raw[5:]) is None
    for lease in (float("nan"), float("inf"), -1.0):
        assert BlockLabel.unpack(label(lease=lease).pack().ljust(LABEL_BYTES, b"\0")) is None


def test_a_request_is_known_by_its_digest_and_a_block_by_its_looks():
    assert len({A, B, request_digest("")}) == 3
    assert {len(each) for each in (A, B)} == {16}
    checksum = {shape_checksum(each) for each in (None, BLOCK, Block("int8"), Block(shape=(2, 2)))}
    assert len(checksum) == 4


def test_ended_transfers_are_remembered_in_bounded_number():
    found = block_receiver()
    names = [each.to_bytes(16, "big") for each in range(4097)]
    for name in names:
        found.failed(name)
    found.block(label(0, transfer=names[1]), BLOCK, 0.0)
    assert found.of(A) is None
    found.block(label(0, transfer=names[0]), BLOCK, 0.0)
    assert found.of(A) is not None
