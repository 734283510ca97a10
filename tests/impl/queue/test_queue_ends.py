"""Both ends of a queue, looked at closely: guards, deadlines, limits, and what is left."""

import signal
import sys
import threading
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from refengine.base.serialization import OUT_OF_BAND_FROM, Encoder, Limits
from refengine.errors import AttachFailed, Busy, DeadlinePassed, PeerDied
from refengine.queue import MessageQueue

from ..roles import Role, leftovers
from .ends import attach as attached
from .ends import pair, writer_for


def _in_another_thread(act: Any) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("size", [10, 50_000])
def test_an_end_is_free_again_after_each_call(ends: Any, size: int):
    writer, reader = ends
    for _ in range(3):
        writer.enqueue(b"x" * size, 5)
        assert not writer._writer._guard.held
        assert reader.dequeue(5) == b"x" * size
        assert not reader._reader._guard.held
        for end in (writer._writer, reader._reader):
            free: list[bool] = []
            _in_another_thread(partial(_try, end._guard, free))
            assert free == [True]


def _try(guard: Any, free: list[bool]) -> None:
    free.append(guard.acquire(False))
    if free[-1]:
        guard.release()


def test_a_call_that_is_just_beginning_in_another_thread_makes_this_one_busy(ends: Any):
    writer, reader = ends
    for guard, act in (
        (writer._writer._guard, lambda: writer.enqueue(1, 5)),
        (reader._reader._guard, lambda: reader.dequeue(5)),
    ):
        taken, over = threading.Event(), threading.Event()

        def hold(guard: Any = guard, taken: Any = taken, over: Any = over) -> None:
            guard.acquire(False)
            taken.set()
            over.wait(10)
            guard.release()

        thread = threading.Thread(target=hold)
        thread.start()
        assert taken.wait(10)
        with pytest.raises(Busy):
            act()
        over.set()
        thread.join(10)
    writer.enqueue("on", 5)
    assert reader.dequeue(5) == "on"


@pytest.mark.parametrize("timeout", [0, 0.02])
@pytest.mark.parametrize("size", [10, 50_000])
def test_a_full_queue_says_how_long_was_waited(timeout: float, size: int):
    writer, reader = pair(max_chunks=1)
    said = f"waited {timeout:g} s for a message"
    with pytest.raises(DeadlinePassed, match=said):
        reader.dequeue(timeout)
    writer.enqueue(0, 5)
    with pytest.raises(DeadlinePassed, match=f"waited {timeout:g} s for a free slot"):
        writer.enqueue(b"x" * size, timeout)
    assert reader.dequeue(5) == 0
    reader.close()
    writer.close()


@pytest.mark.parametrize("ranks", [[-1, 0], [0, 2], [0, 0]])
def test_local_ranks_that_make_no_sense_are_refused(ranks: list[int]):
    with pytest.raises(ValueError, match="different local ranks below 2 needed"):
        MessageQueue(2, 2, local_reader_ranks=ranks)


def test_names_are_gone_as_soon_as_a_readers_told_of_the_writers_death():
    def write(say: Any) -> None:
        with writer_for(1) as queue:
            say(queue.export_handle())
            queue.wait_until_ready(10)
            say("ready")
            signal.pause()

    with Role(write) as writer:
        reader = attached(writer.hear())
        assert writer.hear() == "ready"
        writer.kill()
        with pytest.raises(PeerDied):
            reader.dequeue(10)
        assert not leftovers(writer.pid)
        reader.close()


def test_a_door_that_is_not_there_is_an_error_at_attach(tmp_path: Path):
    writer = writer_for(1)
    handle = replace(writer.export_handle(), door=str(tmp_path / "door"))
    with pytest.raises(AttachFailed, match="door"):
        MessageQueue.create_from_handle(handle, 0)
    writer.close()


# -- the encoder ----------------------------------------------------------------------------


def test_the_formats_own_limits_are_those_of_its_fields():
    assert Limits() == Limits(max_buffers=65535, max_buffer_bytes=4294967295)


def test_a_tensor_goes_out_of_band_though_torch_came_late(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as before:
        before.delitem(sys.modules, "torch")
        encoder = Encoder(Limits())
        assert len(encoder.encode([1])) == 1
    tensor = torch.zeros(2 * OUT_OF_BAND_FROM, dtype=torch.uint8)
    assert [len(buffer) for buffer in encoder.encode([tensor])][1:] == [2 * OUT_OF_BAND_FROM]


@pytest.mark.parametrize("whose", ["writer", "reader"])
def test_a_shutdown_after_the_close_changes_nothing(whose: str):
    for each in (ends := pair()):
        each.close()
    ends[whose == "reader"].shutdown()


def test_an_encoder_does_not_keep_the_memory_of_a_large_pickle():
    encoder = Encoder(Limits())
    tracemalloc.start()
    try:
        encoder.encode(["x" * (4 << 20)])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20
