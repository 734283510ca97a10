"""Sums through shared memory: right, the same on every rank, and over when a rank dies."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refengine.executor import Executor, PoolSettings
from refengine.executor.tensors import TorchWorker
from refengine.executor.tensors.shared_sum import SLOT_BYTES, SharedSum

torch: Any = pytest.importorskip("torch")


class Stage:
    """The file and the bells of a pool of so many ranks, of which some are one stage."""

    def __init__(self, world: int, first: int, size: int) -> None:
        self.world, self.ranks = world, range(first, first + size)
        self.file = os.memfd_create("sums")
        self.wakeups = [os.eventfd(0, os.EFD_NONBLOCK) for _ in self.ranks]
        self.made: list[SharedSum] = []

    def rank(self, me: int) -> SharedSum:
        path = f"/proc/self/fd/{self.file}"
        self.made.append(SharedSum(path, self.world, self.ranks, me, self.wakeups))
        return self.made[-1]

    def together(self, make: Callable[[int], Any], times: int = 1) -> list[list[Any]]:
        """What each rank has after summing what `make` gives it, so many times."""
        ends = [self.rank(me) for me in range(len(self.ranks))]
        found: list[list[Any]] = [[] for _ in ends]

        def run(me: int) -> None:
            for _ in range(times):
                found[me].append(ends[me].reduce(make(me)))

        threads = [threading.Thread(target=run, args=(me,), daemon=True) for me in range(len(ends))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        return found

    def close(self) -> None:
        for each in self.made:
            each.close()
        for fd in (self.file, *self.wakeups):
            os.close(fd)


Stages = Callable[..., Stage]


@pytest.fixture
def stage() -> Iterator[Stages]:
    made: list[Stage] = []

    def make(world: int, first: int = 0, size: int | None = None) -> Stage:
        made.append(Stage(world, first, size or world))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int64", "int32"])
def test_every_rank_has_the_sum_in_the_order_of_the_ranks(
    stage: Stages, count: int, dtype: str
) -> None:
    kind = getattr(torch, dtype)
    parts = [torch.linspace(-5, 7 * (me + 1), 1001).to(kind) for me in range(count)]
    wide = torch.float64 if parts[0].is_floating_point() else kind
    expected = torch.stack([part.to(wide) for part in parts]).sum(0).to(kind)
    for found in stage(count).together(lambda me: parts[me].clone(), times=3):
        assert all(torch.equal(each, expected) for each in found)


def test_a_tensor_larger_than_a_slot_or_not_contiguous_is_summed_in_place(stage: Stages) -> None:
    numel = SLOT_BYTES // 8 * 2 + 3
    for found in stage(2).together(lambda me: torch.full((numel,), me + 1.0).double(), times=2):
        assert all(bool((each == 3.0).all()) for each in found)
    for found in stage(2).together(lambda me: torch.arange(6.0).reshape(2, 3).t() * (me + 1)):
        assert torch.equal(found[0], torch.arange(6.0).reshape(2, 3).t() * 3)
    for found in stage(2).together(lambda _: torch.zeros(0)):
        assert found[0].numel() == 0


def test_stages_of_one_pool_do_not_meet(stage: Stages) -> None:
    first = stage(4, 0, 2)
    second = stage(4, 2, 2)
    os.dup2(first.file, second.file)
    assert [float(f[0]) for f in first.together(lambda me: torch.ones(1) + me)] == [3.0, 3.0]
    assert [float(f[0]) for f in second.together(lambda me: torch.ones(1) * 9)] == [18.0, 18.0]


def test_ranks_that_sum_different_sizes_are_told(stage: Stages) -> None:
    made = stage(2)
    ends, told = [made.rank(me) for me in range(2)], list[str]()

    def run(me: int) -> None:
        try:
            ends[me].reduce(torch.ones(me + 1))
        except RuntimeError as error:
            told.append(str(error))

    threads = [threading.Thread(target=run, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(told) == 2
    assert all("rank 0 sums" in each or "rank 1 sums" in each for each in told)


def test_a_rank_that_dies_ends_the_wait_of_the_others(stage: Stages) -> None:
    made = stage(2)
    end, (mine, theirs) = made.rank(0), os.pipe()
    child = os.fork()
    if not child:
        made.rank(1)
        os.write(theirs, b".")
        threading.Event().wait(20)
        os._exit(0)
    os.read(mine, 1)
    timer = threading.Timer(0.2, os.kill, (child, 9))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="rank 1 of the stage has died"):
        end.reduce(torch.ones(3))
    assert time.monotonic() - begin < 8  # 0.2, and a second for whoever can say how it died
    os.waitpid(child, 0)
    os.close(mine)
    os.close(theirs)


@pytest.mark.parametrize(
    "start", ["zygote", *(pytest.param(how, marks=pytest.mark.full) for how in ("spawn", "fork"))]
)
def test_a_pool_that_sums_listens_nowhere(start: Any) -> None:
    settings = PoolSettings(start=start, preload=("torch",), grace=0.3, term_grace=0.3)
    with Executor(TorchWorker, 2, settings=settings) as made:
        assert made.collective_rpc("reduce", 20.0, (1000,)) == [2.0, 2.0]
        assert [_listeners(pid) for pid in (os.getpid(), *made.pids)] == [[], [], []]


def _listeners(pid: int) -> list[str]:
    """TCP sockets that a process listens at, as the kernel has them."""
    own = set[str]()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(str(fd.readlink()))
    found: list[str] = []
    for table in ("tcp", "tcp6"):
        rows = [line.split() for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()]
        found += [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]
    return found
