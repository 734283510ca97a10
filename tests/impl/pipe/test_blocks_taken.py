"""Taking blocks: READY is sent once, a struck call gives them back, late ones are recognized."""

import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.clock import monotonic
from refengine.errors import DeadlinePassed
from refengine.pipe.block_receiver import Incoming
from refengine.pipe.errors import BlocksFailed
from refengine.pipe.protocol import BlockLabel, BlockMessage, shape_checksum

from ..striking import strikes
from .pairs import GIVEN, Beside
from .test_block_receiver import BLOCK, ONE, TWO, A, B, block_receiver, label, state, whole
from .test_blocks import BLOCKS, Block, Message, pair, said


def test_what_comes_of_a_failed_transfer_after_it_was_told_is_late():
    found = block_receiver()
    found.block(label(1), BLOCK, 0.0)
    one = found.of(A)
    assert one is not None
    assert found.take(one, [])
    found.block(label(0), BLOCK, 0.0)
    assert found.of(A) is None


def test_all_that_was_taken_is_put_back():
    found = block_receiver()
    taken: list[Incoming] = []
    for transfer, request in ((ONE, A), (TWO, B)):
        found.block(label(0, 1, transfer=transfer, request=request), BLOCK, 0.0)
        one = found.of(request)
        assert one is not None
        assert found.take(one, taken)
    first, second = taken
    found.put_back(taken)
    assert found.of(A) is first
    assert found.of(B) is second
    assert not taken


def test_room_is_enough_if_all_fits_to_the_byte():
    found = block_receiver(most=32)
    found.block(label(0), BLOCK, 0.0)
    found.block(label(1), BLOCK, 0.0)
    assert state(found) == ("whole", "")


def granted(receiver: Any) -> None:
    """All blocks of a have come, and were granted."""
    for index, block in enumerate(BLOCKS):
        told = label(index, checksum=shape_checksum(block), lease=60.0)
        receiver._block_receiver.block(told, block, receiver._clock())
    receiver._block_receiver.granted(ONE)


def test_what_a_struck_call_had_taken_is_there_for_the_next():
    """SPEC R9: it waits for nothing, so each line of taking is struck."""
    where: set[str] = set()
    with pair() as (_, receiver, *_others):
        for striker in strikes():
            granted(receiver)
            got = striker.during(partial(receiver.recv_kv, "a", timeout=5.0))
            where.add(striker.where)
            if not got:
                got = [receiver.recv_kv("a", timeout=0.0)]
            assert got == [BLOCKS], striker.where
            assert not receiver._waiting, striker.where
    assert len(where) > 20


def test_a_sender_is_told_once_that_its_blocks_are_wanted():
    asks: list[BlockMessage] = []

    def hold(message: Message) -> list[Message]:
        asks.append(said(message).message)
        return []

    with pair() as (_, receiver, _one, other):
        other.meddle = hold
        receiver._block_receiver._incoming = dict(whole()._incoming)
        found = receiver._block_receiver.of(A)
        assert found is not None
        found.until = receiver._clock() + 60.0
        takes = Beside(lambda: receiver.recv_kv("a", timeout=60.0))
        while not found.asked:
            assert takes.is_alive()
        strangers = BlockLabel(BlockMessage.GRANT, TWO).pack()
        for _ in range(3):
            other.inbox.put((None, strangers.ljust(80, b"\0")))  # each wakes who waits
        other.inbox.put((None, BlockLabel(BlockMessage.GRANT, ONE).pack().ljust(80, b"\0")))
        assert takes.result() == found.blocks
    assert asks == [BlockMessage.READY]


@pytest.mark.parametrize("timeout", [0.0, -1.0])
def test_a_call_without_time_says_how_long_it_has_waited(timeout: float):
    with pair() as (_, receiver, *_others):
        with pytest.raises(DeadlinePassed) as caught:
            receiver.recv_kv("a", timeout=timeout)
        assert caught.value.seconds == timeout


class Joined:
    """A thread that is waited for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def join(self, seconds: float) -> None:
        self.seconds.append(seconds)


def test_closing_waits_for_its_thread_a_little_longer_than_for_the_pipe():
    with pair() as (sender, *_):
        mine, thread = sender._thread, Joined()
        sender._thread = thread
        sender.close()
        sender.close(1.0)
        sender._thread = mine
    assert thread.seconds == [2.0, 3.0]


def message(told: BlockLabel, block: Any = None) -> Message:
    return block, told.pack().ljust(80, b"\0")


def test_what_its_sender_gave_up_is_failed_and_nobody_waits_for_it_any_more():
    with pair() as (_, receiver, _one, other):
        for index, block in enumerate(BLOCKS):
            other.inbox.put(
                message(label(index, checksum=shape_checksum(block), lease=60.0), block)
            )
        other.inbox.put(message(BlockLabel(BlockMessage.FAILED, ONE)))
        with pytest.raises(BlocksFailed, match="its sender gave it up"):
            receiver.recv_kv("a", timeout=5.0)
        assert not receiver._waiting


def test_a_word_that_is_for_a_sender_fails_nothing_that_comes():
    with pair() as (_, receiver, _one, other):
        for index, block in enumerate(BLOCKS):
            other.inbox.put(
                message(label(index, checksum=shape_checksum(block), lease=60.0), block)
            )
        for say in (BlockMessage.READY, BlockMessage.GRANT):
            other.inbox.put(message(BlockLabel(say, ONE)))
        assert receiver.recv_kv("a", timeout=5.0) == BLOCKS


def test_a_sender_is_told_that_they_did_not_come_whole_and_gives_up_at_once():
    times: list[float | None] = []
    with pair() as (sender, _, one, _other):
        send = one.send_labelled

        def timed(tensor: Any, raw: bytes, timeout: float | None = None) -> None:
            if said((tensor, raw.ljust(80, b"\0"))).message is BlockMessage.FAILED:
                times.append(timeout)
            send(tensor, raw, timeout)

        one.send_labelled = timed
        sends = Beside(lambda: sender.send_kv("a", BLOCKS, lease=60.0))
        while not sender._offers:
            assert sends.is_alive()
        (transfer,) = sender._offers
        one.inbox.put(message(BlockLabel(BlockMessage.FAILED, transfer)))
        with pytest.raises(BlocksFailed, match="the receiver did not get them whole"):
            sends.result()
    assert times == [0.0]


def test_how_the_pipe_ended_is_told_as_it_was():
    with pair() as (_, receiver, _one, other):
        other.inbox.put(ZeroDivisionError("struck"))
        with pytest.raises(ZeroDivisionError, match="struck"):
            receiver.recv_kv("a", timeout=5.0)
        assert receiver._thread.daemon


class Asked:
    """A queue of which only is known for how long it was asked."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def get(self, timeout: float) -> None:
        self.seconds.append(timeout)


def test_nobody_waits_for_less_than_no_time_or_for_more_than_a_look_at_once():
    with pair() as (sender, *_):
        queue: Any = Asked()
        offer: Any = SimpleNamespace(heard=queue)
        sender._clock = lambda: 100.0
        for until in (100.5, 90.0, 10_000.0):
            sender._hear(offer, until)
        for seconds in (None, 5.0, 0.25):
            sender._wait(queue, seconds, "a", seconds)
        assert queue.seconds == [0.5, 0.0, 1.0, 1.0, 1.0, 0.25]
        with pytest.raises(DeadlinePassed):
            sender._wait(queue, 0.0, "a", 0.0)
        sender._clock = monotonic


def test_blocks_that_were_granted_stay_when_their_id_is_used_again_at_once():
    """The next blocks come before the call that waits has woken up for the ones that it got."""
    again, came = [Block("again")], threading.Event()
    with pair() as (sender, receiver, one, other):
        handle = receiver._block_receiver.block

        def watched(told: BlockLabel, block: Any, now: float) -> None:
            handle(told, block, now)
            if block is again[0]:
                came.set()

        def asked(message: Message) -> list[Message]:
            one.inbox.put(message)
            assert came.wait(GIVEN)
            return []

        receiver._block_receiver.block = watched
        other.meddle = asked
        takes = Beside(lambda: receiver.recv_kv("a", timeout=GIVEN))
        sender.send_kv("a", BLOCKS, lease=60.0)
        sends = Beside(lambda: sender.send_kv("a", again, lease=60.0))
        assert takes.result() == BLOCKS
        assert receiver.recv_kv("a", timeout=GIVEN) == again
        sends.result()
