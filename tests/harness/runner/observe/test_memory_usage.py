"""A process weighs what the kernel says, in bytes; one that is gone weighs nothing."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.runner.observe import memory_usage


def test_memory_that_was_touched_is_weighed() -> None:
    before = memory_usage.measure(os.getpid())
    block = bytearray(b"\1" * (32 << 20))
    after = memory_usage.measure(os.getpid())
    assert before is not None
    assert after is not None
    assert after.rss - before.rss > len(block) * 0.9
    assert 0 < after.pss <= after.rss


def test_who_is_gone_is_not_weighed(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert memory_usage.measure(pid) is None
    log = Log(tmp_path / "director.jsonl", "director")
    memory_usage.record(log, "writer", pid)
    memory_usage.record(log, "reader-0", os.getpid())
    log.close()
    (told,) = History.read(tmp_path).of("weight")
    assert told.text("target") == "reader-0"
    assert told.number("rss") >= told.number("pss") > 0


_MIB = 1 << 20


def _weighed() -> memory_usage.Weight:
    weight = memory_usage.measure(os.getpid())
    assert weight is not None
    return weight


def test_a_mapped_file_that_is_touched_is_not_private_and_no_longer_than_before() -> None:
    with tempfile.TemporaryFile() as file:
        os.ftruncate(file.fileno(), 16 * _MIB)
        mapped = mmap.mmap(file.fileno(), 16 * _MIB)
    before = _weighed()
    for at in range(0, len(mapped), mmap.PAGESIZE):
        mapped[at] = 1
    after = _weighed()
    mapped.close()
    assert after.rss - before.rss > 15 * _MIB
    assert after.private - before.private < _MIB
    assert (after.shared, after.mappings) == (before.shared, before.mappings)
    gone = _weighed()
    assert before.shared - gone.shared == 16 * _MIB


def test_private_memory_counts_from_its_first_touch_and_has_room_before() -> None:
    before = _weighed()
    ring = mmap.mmap(-1, 16 * _MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapped = _weighed()
    assert mapped.private - before.private < _MIB
    room = sum(each.length - each.touched for each in mapped.roomy)
    assert room - sum(each.length - each.touched for each in before.roomy) > 15 * _MIB
    ring[:] = b"x" * len(ring)
    after = _weighed()
    ring.close()
    assert after.private - before.private > 15 * _MIB
    assert sum(each.length - each.touched for each in after.roomy) < room - 14 * _MIB


_SMAPS = """\
55d0a0000000-55d0a0200000 rw-p 00000000 00:00 0                          [heap]
Size:               2048 kB
Rss:                 100 kB
Pss:                  60 kB
Anonymous:            96 kB
Swap:                  4 kB
7f0000000000-7f0000100000 rw-s 00000000 00:01 1234                       /dev/shm/ring
Rss:                1024 kB
Pss:                 512 kB
Anonymous:             0 kB
7f1000000000-7f1000001000 r--p 00000000 08:01 77                         /lib/a b.so
Rss:                   4 kB
Pss:                   1 kB
Anonymous:             0 kB
"""


def test_each_mapping_is_added_up_as_what_it_is() -> None:
    found = memory_usage.weight_of(_SMAPS)
    kib = 1024
    assert (found.rss, found.pss) == (1128 * kib, 573 * kib)
    assert (found.private, found.mappings, found.shared) == (100 * kib, 3, _MIB)
    assert found.roomy == (memory_usage.Roomy(0x55D0A0000000, 2 * _MIB, 100 * kib),)


def _child(act: str) -> tuple[subprocess.Popen[bytes], Callable[[], bytes]]:
    """A process that does so at each byte that it is sent, and says when it has."""
    code = (
        "import os, sys, subprocess\nkept = []\n"
        f"while os.read(0, 1):\n    {act}\n    os.write(1, b'.')\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert child.stdin
    assert child.stdout
    says, hears = child.stdin, child.stdout

    def once() -> bytes:
        says.write(b"!")
        return hears.read(1)

    assert once() == b"."
    return child, once


def _end(child: subprocess.Popen[bytes]) -> None:
    child.communicate(timeout=10)


def test_memory_that_was_taken_for_a_moment_is_charged() -> None:
    child, once = _child("bytearray(b'x' * (48 << 20))")
    before = memory_usage.tree(child.pid)
    assert before.grown(child.pid) < 4 * _MIB
    once()
    assert before.grown(child.pid) > 40 * _MIB
    _end(child)


def test_a_child_that_takes_anothers_place_is_no_growth() -> None:
    start = "[k.kill() or k.wait() for k in kept]; kept[:] = [subprocess.Popen(['cat'], stdin=-1)]"
    child, once = _child(start)
    before = memory_usage.tree(child.pid)
    once()
    assert before.grown(child.pid) < 4 * _MIB
    _end(child)


def test_descriptors_are_those_of_whoever_has_the_most() -> None:
    child, once = _child("kept.extend(os.dup(1) for _ in range(50))")
    before = memory_usage.descriptors(child.pid)
    once()
    assert memory_usage.descriptors(child.pid) == before + 50
    assert memory_usage.descriptors(os.getpid()) >= before + 50
    _end(child)
