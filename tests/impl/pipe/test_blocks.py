"""Blocks over a carrier that a test holds in its hands."""

import gc
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from refengine.errors import DeadlinePassed
from refengine.pipe import blocks as blocks_module
from refengine.pipe.blocks import BlockPipe
from refengine.pipe.errors import BlocksFailed, LeaseEnded, PipeClosed, TransferFailed
from refengine.pipe.protocol import LABEL_BYTES, BlockLabel, BlockMessage

from ..collecting import collected_in, in_a_cycle
from ..striking import Struck, strikes
from .pairs import Beside

Message = tuple[Any, bytes]
Meddle = Callable[[Message], list[Message]]


class Block:
    dtype = "float32"

    def __init__(self, name: str) -> None:
        self.name, self.shape, self.nbytes = name, (4,), 16


class Carrier:
    """One end. What it sends goes through `meddle`, which gives what the other end gets."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[Message | BaseException] = SimpleQueue()
        self.other: Carrier
        self.meddle: Meddle = lambda message: [message]
        self.full = False

    def send_labelled(self, tensor: Any, label: bytes, timeout: float | None = None) -> None:
        if self.full:
            raise DeadlinePassed("room", timeout or 0)
        for message in self.meddle((tensor, label.ljust(LABEL_BYTES, b"\0"))):
            self.other.inbox.put(message)

    def recv_labelled(self, timeout: float | None = None) -> Message:
        try:
            found = self.inbox.get(timeout=timeout)
        except Empty:
            raise DeadlinePassed("a tensor", timeout or 0) from None
        if isinstance(found, BaseException):
            raise found
        return found

    def close(self, timeout: float | None = None) -> None:
        self.inbox.put(PipeClosed("this rank"))
        self.other.inbox.put(PipeClosed("rank 0"))


@contextmanager
def pair(**limits: int) -> Iterator[tuple[BlockPipe, BlockPipe, Carrier, Carrier]]:
    one, other = Carrier(), Carrier()
    one.other, other.other = other, one
    sender, receiver = BlockPipe(one), BlockPipe(other, **limits)
    try:
        yield sender, receiver, one, other
    finally:
        sender.close(1.0)
        receiver.close(1.0)
        assert not sender._thread.is_alive()
        assert not receiver._thread.is_alive()


def said(message: Message) -> BlockLabel:
    found = BlockLabel.unpack(message[1])
    assert found is not None
    return found


def on_block(index: int, change: Callable[[Message], list[Message]]) -> Meddle:
    def meddle(message: Message) -> list[Message]:
        label = said(message)
        hit = label.message is BlockMessage.BLOCK and label.index == index
        return change(message) if hit else [message]

    return meddle


BLOCKS = [Block("first"), Block("second")]


def test_blocks_are_served_whole_whoever_comes_first():
    with pair() as (sender, receiver, *_):
        takes = Beside(lambda: receiver.recv_kv("a", timeout=5.0))
        sender.send_kv("a", BLOCKS, lease=5.0)
        assert takes.result() == BLOCKS
        sends = Beside(lambda: sender.send_kv("b", BLOCKS[:1], lease=5.0))
        assert receiver.recv_kv("b", timeout=5.0) == BLOCKS[:1]
        sends.result()
        sends = Beside(lambda: sender.send_kv("none", [], lease=5.0))
        assert receiver.recv_kv("none", timeout=5.0) == []
        sends.result()


def test_requests_may_be_taken_in_any_order():
    with pair() as (sender, receiver, *_):
        sends = [
            Beside(lambda name=name: sender.send_kv(name, [Block(name)], lease=5.0))
            for name in "abc"
        ]
        for name in "cab":
            (got,) = receiver.recv_kv(name, timeout=5.0)
            assert got.name == name
        for each in sends:
            each.result()


@pytest.mark.parametrize(
    ("meddle", "why"),
    [
        (on_block(0, lambda m: []), "block 0 is missing"),
        (on_block(0, lambda m: [m, m]), "block 0 came twice"),
        (on_block(1, lambda m: [m, m]), "came twice"),
        (on_block(1, lambda m: [(None, m[1])]), "not of the type"),
        (on_block(0, lambda m: [TransferFailed(0, "lost")]), "block 0 is missing"),
    ],
)
def test_a_lost_repeated_or_exchanged_block_is_failed_at_both_ends(meddle: Any, why: str):
    with pair() as (sender, receiver, one, _):
        one.meddle = meddle
        takes = Beside(lambda: receiver.recv_kv("a", timeout=5.0))
        with pytest.raises(BlocksFailed):
            sender.send_kv("a", BLOCKS, lease=10.0)
        with pytest.raises(BlocksFailed, match=why):
            takes.result()
        one.meddle = lambda message: [message]
        takes = Beside(lambda: receiver.recv_kv("a", timeout=5.0))
        sender.send_kv("a", BLOCKS, lease=5.0)
        assert takes.result() == BLOCKS


def test_swapped_blocks_are_failed():
    held: list[Message] = []

    def swap(message: Message) -> list[Message]:
        label = said(message)
        if label.message is BlockMessage.BLOCK and label.index == 0:
            held.append(message)
            return []
        return [message, held.pop()] if held else [message]

    with pair() as (sender, receiver, one, _):
        one.meddle = swap
        takes = Beside(lambda: receiver.recv_kv("a", timeout=5.0))
        with pytest.raises(BlocksFailed):
            sender.send_kv("a", BLOCKS, lease=10.0)
        with pytest.raises(BlocksFailed, match="block 0 is missing, 1 came"):
            takes.result()


def test_what_nobody_asks_for_ends_with_its_lease_and_is_never_served():
    with pair() as (sender, receiver, *_):
        with pytest.raises(LeaseEnded, match=r"lease of 0\.1 s ended"):
            sender.send_kv("a", BLOCKS, lease=0.1)
        with pytest.raises((DeadlinePassed, BlocksFailed)):
            receiver.recv_kv("a", timeout=0.1)
        assert receiver._block_receiver.nbytes == 0


@pytest.mark.parametrize("lease", [math.inf, math.nan])
def test_a_lease_without_an_end_is_refused_before_anything_is_sent(lease: float):
    with pair() as (sender, receiver, *_):
        with pytest.raises(ValueError, match="a lease ends"):
            Beside(lambda: sender.send_kv("a", BLOCKS, lease=lease)).result()
        assert receiver._block_receiver.nbytes == 0
        assert not sender._offers


def test_what_comes_after_its_sender_gave_up_is_not_served():
    late: list[Message] = []

    def hold(message: Message) -> list[Message]:
        late.append(message)
        return []

    with pair() as (sender, receiver, one, other):
        one.meddle = hold
        with pytest.raises(LeaseEnded):
            sender.send_kv("a", BLOCKS, lease=0.1)
        assert [said(each).message for each in late] == [
            BlockMessage.BLOCK,
            BlockMessage.BLOCK,
            BlockMessage.FAILED,
        ]
        takes = Beside(lambda: receiver.recv_kv("a", timeout=0.3))
        for each in late[:2]:
            other.inbox.put(each)
        with pytest.raises((DeadlinePassed, BlocksFailed)):
            takes.result()


def test_a_taker_that_comes_too_late_is_not_granted_anything(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blocks_module, "_POLL_INTERVAL", 0.01)
    with pair() as (sender, receiver, one, other):
        asks: list[Message] = []
        other.meddle = lambda message: asks.append(message) or []
        sender._clock = lambda: 100.0 if asks else 0.0
        takes = Beside(lambda: receiver.recv_kv("a", timeout=10.0))
        with pytest.raises(LeaseEnded):
            sender.send_kv("a", BLOCKS, lease=60.0)
        one.inbox.put(asks[0])
        with pytest.raises((DeadlinePassed, BlocksFailed)):
            takes.result()


def test_a_sender_without_room_ends_with_its_lease():
    with pair() as (sender, _, one, _other):
        one.full = True
        with pytest.raises(LeaseEnded):
            sender.send_kv("a", BLOCKS, lease=0.1)
        assert not sender._offers


def test_a_receiver_without_room_fails_it():
    with pair(most=16) as (sender, receiver, *_):
        takes = Beside(lambda: receiver.recv_kv("a", timeout=5.0))
        with pytest.raises(BlocksFailed):
            sender.send_kv("a", BLOCKS, lease=10.0)
        with pytest.raises(BlocksFailed, match="no room for more than 16 bytes"):
            takes.result()


def test_a_call_that_gives_up_can_be_made_again():
    with pair() as (sender, receiver, one, _):
        with pytest.raises(DeadlinePassed, match="the blocks of 'a'"):
            receiver.recv_kv("a", timeout=0.0)
        granted = threading.Event()
        held: list[Message] = []

        def hold_the_grant(message: Message) -> list[Message]:
            if said(message).message is BlockMessage.GRANT:
                held.append(message)
                granted.set()
                return []
            return [message]

        one.meddle = hold_the_grant
        takes = Beside(lambda: receiver.recv_kv("a", timeout=0.3))
        sender.send_kv("a", BLOCKS, lease=5.0)
        assert granted.wait(5.0)
        with pytest.raises(DeadlinePassed):
            takes.result()
        receiver._pipe.inbox.put(held[0])
        assert receiver.recv_kv("a", timeout=5.0) == BLOCKS


def test_whoever_waits_is_told_of_the_end():
    with pair() as (sender, receiver, one, _):
        takes = Beside(lambda: receiver.recv_kv("a", timeout=None))
        sends = Beside(lambda: sender.send_kv("b", BLOCKS, lease=60.0))
        while not (sender._offers and receiver._waiting):
            assert takes.is_alive()
        one.close()
        for each in (takes, sends):
            with pytest.raises(PipeClosed):
                each.result()
        for _ in range(2):
            with pytest.raises(PipeClosed):
                receiver.recv_kv("a", timeout=1.0)


def test_what_is_no_message_of_ours_is_passed_over():
    with pair() as (sender, receiver, _, other):
        other.inbox.put((None, bytes(LABEL_BYTES)))
        other.inbox.put(
            (None, BlockLabel(BlockMessage.READY, b"x" * 16).pack().ljust(LABEL_BYTES, b"\0"))
        )
        takes = Beside(lambda: receiver.recv_kv("a", timeout=5.0))
        sender.send_kv("a", BLOCKS, lease=5.0)
        assert takes.result() == BLOCKS


def test_an_exception_before_any_line_of_taking_loses_nothing():
    """SPEC R9."""
    for striker in strikes():
        with pair() as (sender, receiver, *_):
            sends = Beside(lambda s=sender: s.send_kv("a", BLOCKS, lease=5.0))
            got = striker.during(lambda r=receiver: r.recv_kv("a", timeout=5.0))
            if not got:
                got = [receiver.recv_kv("a", timeout=5.0)]
            assert got == [BLOCKS], striker.where
            sends.result()
            assert not receiver._waiting, striker.where


def test_an_exception_before_any_line_of_sending_serves_all_or_nothing():
    for striker in strikes(stride=3):
        with pair() as (sender, receiver, *_):
            takes = Beside(lambda r=receiver: r.recv_kv("a", timeout=0.1))
            done = striker.during(lambda s=sender: s.send_kv("a", BLOCKS, lease=5.0))
            try:
                assert takes.result() == BLOCKS
            except (DeadlinePassed, BlocksFailed):
                assert not done, striker.where


def test_a_lease_is_kept_to_the_moment_and_a_block_leaves_its_pipe(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(blocks_module, "_POLL_INTERVAL", 30.0)
    one, other = Carrier(), Carrier()
    one.other, other.other = other, one
    began = time.monotonic()
    with BlockPipe(one) as sender:
        assert sender._block_receiver._most == 1 << 32
        with pytest.raises(LeaseEnded):
            sender.send_kv("a", BLOCKS, lease=0.05)
    assert time.monotonic() - began < 20  # not when it looks anyway
    assert not sender._thread.is_alive()


def test_whoever_waits_misses_a_thread_that_was_struck_where_it_could_not_say_so(
    monkeypatch: pytest.MonkeyPatch,
):
    """SPEC R9."""

    def struck(*_: object) -> None:
        raise Struck

    with pair() as (sender, receiver, one, other):
        monkeypatch.setattr(BlockPipe, "finish", struck)
        takes = Beside(lambda: receiver.recv_kv("a", timeout=None))
        sends = Beside(lambda: sender.send_kv("b", BLOCKS, lease=60.0))
        while not (sender._offers and receiver._waiting):
            assert takes.is_alive()
        with lost_threads():
            for end in (one, other):
                end.inbox.put(PipeClosed("this rank"))
            for thread in (sender._thread, receiver._thread):
                thread.join(5.0)
        monkeypatch.undo()
        for each in (takes, sends):
            with pytest.raises(PipeClosed):
                each.result()


@contextmanager
def lost_threads() -> Iterator[None]:
    """What ends a thread is told to nobody."""
    before, threading.excepthook = threading.excepthook, lambda _: None
    yield
    threading.excepthook = before


def test_an_exception_before_any_line_that_the_thread_runs_is_told_to_who_waits(
    monkeypatch: pytest.MonkeyPatch,
):
    """SPEC R9."""
    for striker in strikes(stride=2):
        whole = blocks_module._run
        struck = [striker]

        def run(*args: Any, struck: list[Any] = struck, whole: Any = whole) -> None:
            one = struck.pop() if struck else None
            return one.during(lambda: whole(*args)) if one else whole(*args)

        monkeypatch.setattr(blocks_module, "_run", run)
        with pair() as (sender, receiver, _, other):
            takes = Beside(lambda r=receiver: r.recv_kv("a", timeout=5.0))
            outcome = []
            try:
                sender.send_kv("a", BLOCKS, lease=5.0)
            except (BlocksFailed, PipeClosed, Struck, LeaseEnded) as error:
                outcome.append(error)
                other.inbox.put(PipeClosed("rank 0"))
            try:
                assert takes.result() == BLOCKS
            except (PipeClosed, BlocksFailed):
                assert outcome, striker.where
        monkeypatch.undo()


def test_blocks_that_are_dropped_leave_their_pipe_and_no_thread():
    """SPEC L1."""
    one, other = Carrier(), Carrier()
    one.other, other.other = other, one
    blocks = BlockPipe(one)
    thread = blocks._thread
    del blocks
    gc.collect()
    thread.join(5.0)
    assert not thread.is_alive()
    with pytest.raises(PipeClosed):
        other.recv_labelled(5.0)


class Collecting:
    """A pipe by which the thread that receives runs the collector, and which notes who closes."""

    def __init__(self) -> None:
        self.due, self.closed = threading.Event(), threading.Event()
        self.closed_by = ""

    def send_labelled(self, tensor: Any, label: bytes, timeout: float | None = None) -> None:
        raise AssertionError

    def recv_labelled(self, timeout: float | None = None) -> Any:
        self.due.wait()
        gc.collect()
        self.closed.wait()
        raise PipeClosed("this rank")

    def close(self, timeout: float | None = None) -> None:
        self.closed_by = threading.current_thread().name
        self.closed.set()


def test_blocks_that_their_own_thread_collects_have_their_pipe_closed_by_another():
    pipe = Collecting()
    with collected_in(""):
        in_a_cycle(BlockPipe(pipe))
        pipe.due.set()
        assert pipe.closed.wait(10)
    assert pipe.closed_by != "refengine-blocks"
