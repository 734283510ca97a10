"""The ring alone: R1 to R4, R6 to R9, with and without real processes."""

import contextlib
import itertools
import random
import sys
import threading
from typing import Any

import pytest

from refengine.errors import AttachFailed, DeadlinePassed, QueueClosed, RankRefused, WrongRole
from refengine.ring.layout import READERS_SLEEP, WRITER_SLEEPS, Layout
from refengine.ring.memory import lock_fence, restart_fence
from refengine.ring.ring import Ring, RingHandle

from ..roles import Role
from .recording import PlainMemory, recorded_ring
from .slot_states import case_of, legal


def put(ring: Ring, data: bytes, timeout: float | None = 0) -> None:
    with ring.acquire_write(timeout) as chunk:
        chunk[: len(data)] = data


def get(ring: Ring, size: int = 4, timeout: float | None = 0) -> bytes:
    with ring.acquire_read(timeout) as chunk:
        return bytes(chunk[:size])


@pytest.fixture
def ring():
    writer = Ring.create(2, 64, 3)
    readers = [Ring.attach(writer.handle(), i) for i in range(2)]
    yield writer, readers
    for end in (*readers, writer):
        end.close()


@pytest.mark.parametrize("n_reader", [1, 2, 3])
def test_every_store_is_a_transition_the_table_allows(n_reader: int):
    recorder, writer, readers = recorded_ring(n_reader)
    choose = random.Random(n_reader)
    for _ in range(400):
        end = choose.choice([writer, *readers])
        with contextlib.suppress(DeadlinePassed):
            put(end, b"data") if end is writer else get(end)
    seen = check_transitions(recorder.log, writer.layout)
    assert {(1, 1), (1, 2), (4, 1)} <= seen


def check_transitions(log: list[Any], layout: Layout) -> set[tuple[int, int]]:
    flags = {layout.written_at(k): (k, None) for k in range(layout.max_chunks)}
    for k, i in itertools.product(range(layout.max_chunks), range(layout.n_reader)):
        flags[layout.read_at(k, i)] = (k, i)
    written = [0] * layout.max_chunks
    read = [[0] * layout.n_reader for _ in range(layout.max_chunks)]
    seen: set[tuple[int, int]] = set()
    for party, what, at, value in log:
        if what != "store" or at not in flags:
            continue
        slot, reader = flags[at]
        before = case_of(written[slot], read[slot])
        if reader is None:
            assert party == "w"
            written[slot] = value
        else:
            assert party in ("w", f"r{reader}")
            read[slot][reader] = value
        after = case_of(written[slot], read[slot])
        assert legal(before, after, party == "w", layout.n_reader), (party, before, after)
        seen.add((int(before), int(after)))
    return seen


def steps(log: list[Any], layout: Layout, own: int) -> list[str]:
    names = {layout.written_at(0): "written", own: "own"}
    out = []
    for _, what, at, value in log:
        if what == "fence":
            out += ["fence"] if out[-1:] != ["fence"] else []  # a pair is one
        elif at in names:
            out.append(f"{names[at]}={value}" if what == "store" else f"load {names[at]}")
    return out


def test_the_writer_fences_where_R5_says():
    recorder, writer, _ = recorded_ring(1)
    recorder.log.clear()
    put(writer, b"data")
    done = steps(recorder.log, writer.layout, writer.layout.read_at(0, 0))
    order = ["written=0", "fence", "own=0", "fence", "written=1", "fence"]
    assert [s for s in done if not s.startswith("load")] == order


def test_a_reader_fences_where_R5_says():
    recorder, writer, (reader,) = recorded_ring(1)
    put(writer, b"data")
    recorder.log.clear()
    with reader.acquire_read(0):
        recorder.log.append(("r0", "copy", -1, 0))
        copied = len(recorder.log)
    before = steps(recorder.log[:copied], writer.layout, writer.layout.read_at(0, 0))
    after = steps(recorder.log[copied:], writer.layout, writer.layout.read_at(0, 0))
    assert before == ["load own", "fence", "load written", "fence"]
    assert after == ["fence", "own=1", "fence"]


def test_a_fence_left_locked_by_an_exception_still_fences():
    recorder, writer, (reader,) = recorded_ring(1)
    fence = lock_fence()
    fence.acquire()
    restart_fence(fence)
    fence.release()
    assert fence.acquire(False)
    with contextlib.suppress(KeyError), writer.acquire_write(0):
        raise KeyError
    put(writer, b"data")
    assert bytes(get(reader, 4)) == b"data"
    del recorder


def test_sleeper_words_are_read_after_the_last_fence():
    recorder, writer, (reader,) = recorded_ring(1)
    for party, act, word in (
        ("w", lambda: put(writer, b"x"), READERS_SLEEP),
        ("r0", lambda: get(reader, 1), WRITER_SLEEPS),
    ):
        recorder.log.clear()
        act()
        mine = [(what, at) for p, what, at, _ in recorder.log if p == party]
        assert mine[-2:] == [("fence", 0), ("load", word)]


def test_a_sleeper_flag_is_cleared_before_its_bell_rings():
    _, writer, (reader,) = recorded_ring(1)
    at_ring: list[int] = []
    writer.writer.wake_readers = lambda: at_ring.append(writer.cells[READERS_SLEEP])
    reader.reader.wake_writer = lambda: at_ring.append(reader.cells[WRITER_SLEEPS])
    for word, act in (
        (READERS_SLEEP, lambda: put(writer, b"x")),
        (WRITER_SLEEPS, lambda: get(reader)),
    ):
        writer.cells[word] = 1
        act()
    assert at_ring == [0, 0]


def test_each_reader_gets_every_message_once_in_order(ring: Any):
    writer, readers = ring
    got: list[list[int]] = [[], []]

    def read(i: int) -> None:
        for _ in range(500):
            got[i].append(int.from_bytes(get(readers[i], 4, 10), "big"))

    threads = [threading.Thread(target=read, args=(i,)) for i in (0, 1)]
    for t in threads:
        t.start()
    for n in range(500):
        put(writer, n.to_bytes(4, "big"), 10)
    for t in threads:
        t.join(20)
    assert got == [list(range(500))] * 2


def test_no_copy_is_torn_between_processes():
    writer = Ring.create(2, 1 << 16, 2)

    def read(say: Any, handle: RingHandle, rank: int) -> None:
        reader = Ring.attach(handle, rank)
        say("attached")
        for n in range(300):
            with reader.acquire_read(10) as chunk:
                assert bytes(chunk) == bytes([n % 256]) * (1 << 16), n
        say("whole")

    with Role(read, writer.handle(), 0) as a, Role(read, writer.handle(), 1) as b:
        for role in (a, b):
            assert role.hear() == "attached"
        for n in range(300):
            put(writer, bytes([n % 256]) * (1 << 16), 10)
        assert (a.finish(), b.finish()) == (["attached", "whole"],) * 2
    writer.close()


def test_the_writer_waits_for_the_slowest_reader(ring: Any):
    writer, (quick, slow) = ring
    for n in range(3):
        put(writer, b"%d" % n)
        get(quick, 1)
    with pytest.raises(DeadlinePassed):
        put(writer, b"3")
    assert [get(slow, 1) for _ in range(3)] == [b"0", b"1", b"2"]
    put(writer, b"3")
    assert get(slow, 1) == get(quick, 1) == b"3"


def test_a_fill_that_raises_publishes_nothing(ring: Any):
    writer, (reader, _) = ring
    with pytest.raises(KeyError), writer.acquire_write(0) as chunk:
        fill_badly(chunk)
    with pytest.raises(DeadlinePassed):
        get(reader)
    put(writer, b"kept")
    assert get(reader) == b"kept"


def fill_badly(chunk: memoryview) -> None:
    chunk[:4] = b"lost"
    raise KeyError


def test_a_read_that_raises_consumes_its_message_only(ring: Any):
    writer, (reader, _) = ring
    put(writer, b"bad!")
    put(writer, b"good")
    with pytest.raises(KeyError), reader.acquire_read(0):
        raise KeyError
    assert get(reader) == b"good"


def test_attaching_to_nothing_is_an_error_at_attach(ring: Any):
    handle = ring[0].handle()
    with pytest.raises(AttachFailed):
        Ring.attach(RingHandle(2, 64, 3, "refengine-no-such"), 0)
    with pytest.raises(AttachFailed):
        Ring.attach(RingHandle(2, 1 << 20, 3, handle.name), 0)
    with pytest.raises(AttachFailed):
        Ring.attach(RingHandle(2, 60, 3, handle.name), 0)


def test_attaching_to_what_is_no_ring_is_an_error():
    memory = PlainMemory()
    memory.create(1 << 16)
    with pytest.raises(AttachFailed, match="not a ring"):
        Ring.attach(RingHandle(1, 64, 3, "plain"), 0, memory=memory)


def test_wrong_ranks_and_roles_are_errors(ring: Any):
    writer, (reader, _) = ring
    with pytest.raises(RankRefused):
        Ring.attach(writer.handle(), 2)
    with pytest.raises(WrongRole):
        get(writer)
    with pytest.raises(WrongRole):
        put(reader, b"x")


def test_closing_is_seen_by_the_other_side_after_the_messages(ring: Any):
    writer, (a, b) = ring
    put(writer, b"last")
    writer.close()
    assert get(a, 4, 5) == b"last"
    with pytest.raises(QueueClosed):
        get(a, 4, 5)
    b.close()


def test_a_reader_that_left_holds_no_slot(ring: Any):
    writer, (a, b) = ring
    b.close()
    for n in range(5):
        put(writer, b"%d" % n)
        assert get(a, 1) == b"%d" % n


class Injected(Exception):
    pass


def inject(act: Any, at: int, only: str) -> bool:
    """Run `act`, raising at the at-th line of files ending in `only`; whether it was reached."""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.endswith(only):
            return None
        if event == "line":
            count += 1
            if count == at:
                raise Injected
        return trace

    sys.settrace(trace)
    try:
        act()
    except Injected:
        pass
    finally:
        sys.settrace(None)
    return count >= at


def test_an_exception_at_any_line_of_a_write_leaves_it_done_or_not():
    for at in itertools.count(1):
        memory = PlainMemory()
        writer = Ring.create(1, 8, 2, memory=memory)
        reader = Ring.attach(writer.handle(), 0, memory=memory)
        rings = []
        writer.writer.wake_readers = lambda rings=rings: rings.append(1)
        reader.cells[READERS_SLEEP] = 1
        reached = inject(lambda w=writer: put(w, b"0"), at, "ring/writer.py")
        slept = bool(rings)
        first = drain(reader)
        assert first in ([], [b"0"])
        assert slept or not first, f"published without waking, line {at}"
        put(writer, b"1")
        put(writer, b"2") if first else None
        assert drain(reader) == ([b"1", b"2"] if first else [b"1"])
        if not reached:
            break
    assert at > 15


def test_an_exception_at_any_line_of_a_read_leaves_it_done_or_not():
    for at, refill in itertools.product(range(1, 80), (False, True)):
        memory = PlainMemory()
        writer = Ring.create(1, 8, 2, memory=memory)
        reader = Ring.attach(writer.handle(), 0, memory=memory)
        put(writer, b"0")
        put(writer, b"1")
        got: list[bytes] = []
        reached = inject(lambda r=reader, got=got: once(r, got), at, "ring/reader.py")
        if refill:
            try:
                put(writer, b"2")  # reuses the slot, if it was given back
            except DeadlinePassed:
                refill = False
        got += drain(reader)
        expected = [b"0", b"1"] + ([b"2"] if refill else [])
        assert got in (expected, expected[1:]), (at, got)
        if not reached and at > 20:
            return
    raise AssertionError("the read has more lines than this test looks at")


def once(reader: Ring, into: list[bytes]) -> None:
    chunk = reader.reader.claim(0)
    assert chunk is not None
    data = bytes(chunk[:1])
    reader.reader.release_slot()
    into.append(data)


def drain(reader: Ring) -> list[bytes]:
    got = []
    while True:
        try:
            got.append(get(reader, 1))
        except DeadlinePassed:
            return got


def fill(ring: Ring, number: int, back: int) -> None:
    chunk = ring.writer.claim(0, back)
    assert chunk is not None
    ring.writer.begin_write()
    chunk[:] = number.to_bytes(8, "big") * (len(chunk) // 8)
    ring.writer.publish()


def test_a_large_message_is_laid_where_one_was_just_read(ring: tuple[Ring, list[Ring]]):
    writer, readers = ring
    put(writer, b"read")
    for reader in readers:
        get(reader)
    chunk = writer.writer.claim(0, 1)
    assert chunk is not None
    assert bytes(chunk[:4]) == b"read"
    chunk = writer.writer.claim(0)  # the slot has it now
    assert chunk is not None
    assert bytes(chunk[:4]) == b"read"


def test_small_messages_go_round_the_chunks(ring: tuple[Ring, list[Ring]]):
    writer, readers = ring
    put(writer, b"read")
    for reader in readers:
        get(reader)
    chunk = writer.writer.claim(0)
    assert chunk is not None
    assert bytes(chunk[:4]) == bytes(4)


@pytest.mark.parametrize("seed", range(5))
def test_no_unread_message_is_overwritten_wherever_chunks_go(seed: int):
    choose = random.Random(seed)
    writer = Ring.create(2, 64, 4)
    readers = [Ring.attach(writer.handle(), i) for i in range(2)]
    sent, taken = 0, [0, 0]
    for _ in range(1500):
        party = choose.randrange(3)
        if party == 2 and sent - min(taken) < 4:
            fill(writer, sent, choose.randrange(5))
            sent += 1
        elif party < 2 and taken[party] < sent:
            assert get(readers[party], 64) == taken[party].to_bytes(8, "big") * 8
            taken[party] += 1
    assert min(taken) > 200
    for end in (*readers, writer):
        end.close()


def test_more_chunks_than_a_slot_can_name_are_refused():
    with pytest.raises(ValueError, match="65536 chunks"):
        Layout(1, 64, 65537)
