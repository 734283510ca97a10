"""Segments and names: R8, Q15, S2, L1."""

import gc
import os
from pathlib import Path
from typing import Any

import pytest

from refengine.errors import AttachFailed, MemoryShort
from refengine.memory import SharedSegment
from refengine.ownership import SHM, Owner, new_directory, new_name, remove_if_orphan, sweep

from .roles import Role


def names() -> list[str]:
    return [p.name for p in SHM.iterdir()]


def test_too_little_room_is_an_error_at_construction_and_leaves_nothing():
    before = set(names())
    room = os.statvfs(SHM)
    with pytest.raises(MemoryShort):
        SharedSegment.create((room.f_blocks + 1) * room.f_frsize)
    assert not [n for n in set(names()) - before if f"-{os.getpid()}-" in n]


def test_every_page_is_reserved_at_creation():
    segment = SharedSegment.create(1 << 20)
    assert (SHM / segment.name).stat().st_blocks * 512 >= 1 << 20
    segment.unlink()
    segment.close()


@pytest.mark.parametrize("umask", [0, 0o777])
def test_a_segment_and_a_directory_are_their_owners_alone(umask: int):
    old = os.umask(umask)
    try:
        segment, folder = SharedSegment.create(4096), new_directory()
    finally:
        os.umask(old)
    assert (SHM / segment.name).stat().st_mode & 0o777 == 0o600
    assert Path(folder).stat().st_mode & 0o777 == 0o700
    segment.unlink()
    folder.rmdir()


def test_a_forks_copy_never_unlinks():
    segment = SharedSegment.create(4096)

    def child(say: Any) -> None:
        segment.unlink()
        segment.close()
        say("done")

    Role(child).finish()
    assert (SHM / segment.name).exists()
    segment.unlink()
    assert not (SHM / segment.name).exists()


def test_unlinking_happens_once():
    segment = SharedSegment.create(4096)
    segment.unlink()
    (SHM / segment.name).touch()  # another's, by coincidence
    segment.unlink()
    assert (SHM / segment.name).exists()
    (SHM / segment.name).unlink()


def test_an_attached_end_never_unlinks():
    segment = SharedSegment.create(4096)
    other = SharedSegment.attach(segment.name, 4096)
    other.unlink()
    other.close()
    del other
    gc.collect()
    assert (SHM / segment.name).exists()
    segment.unlink()


def test_attaching_refuses_missing_small_and_linked():
    segment = SharedSegment.create(4096)
    link = SHM / new_name()
    link.symlink_to(SHM / segment.name)
    for name, size in (("refengine-missing", 1), (segment.name, 8192), (link.name, 4096)):
        with pytest.raises(AttachFailed):
            SharedSegment.attach(name, size)
    link.unlink()
    segment.unlink()


def test_the_next_start_sweeps_what_the_dead_left_and_nothing_else():
    def child(say: Any) -> None:
        say((SharedSegment.create(4096).name, new_directory()))

    dead = Role(child)
    name, folder = dead.finish()[0]
    alive = SharedSegment.create(4096)
    foreign = SHM / "refengine-something-else"
    foreign.touch()
    sweep()
    assert not (SHM / name).exists()
    assert not Path(folder).exists()
    assert (SHM / alive.name).exists()
    assert foreign.exists()
    foreign.unlink()
    alive.unlink()


def test_a_reused_pid_does_not_keep_a_dead_owners_names():
    me = Owner.me()
    assert not me.is_gone()
    assert Owner(me.namespace, me.pid, me.start + 1).is_gone()
    assert not Owner(me.namespace + 1, me.pid, me.start + 1).is_gone()  # not ours to judge


def test_an_orphan_is_not_removed_while_its_owner_lives():
    segment = SharedSegment.create(4096)
    assert not remove_if_orphan(SHM / segment.name)
    assert (SHM / segment.name).exists()
    segment.unlink()
