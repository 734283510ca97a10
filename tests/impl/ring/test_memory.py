"""Segments and names: R8, Q15, S2, L1."""

import errno
import gc
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.ownership import (
    SHM,
    Owner,
    new_directory,
    new_name,
    remove_if_orphan,
    remove_own,
    remove_stale_names,
)
from refengine.errors import AttachFailed, MemoryShort
from refengine.ring.memory import SharedSegment

from ..roles import Role, leftovers


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
    remove_stale_names()
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


def _names() -> set[str]:
    return {path.name for path in SHM.glob("refengine-*") if f"-{os.getpid()}-" in path.name}


def test_a_segment_is_exactly_as_long_as_asked_for():
    segment = SharedSegment.create(5000)
    assert (SHM / segment.name).stat().st_size == 5000
    segment.unlink()
    segment.close()


@pytest.mark.parametrize("short", [0, 1])
def test_room_is_looked_for_before_any_is_taken(short: int, monkeypatch: pytest.MonkeyPatch):
    room = os.statvfs(SHM)
    few = SimpleNamespace(f_bavail=2, f_frsize=room.f_frsize)
    monkeypatch.setattr(os, "statvfs", lambda _: few)
    before = _names()
    nbytes = 2 * room.f_frsize + short
    if short:
        with pytest.raises(MemoryShort, match=os.strerror(errno.ENOSPC)):
            SharedSegment.create(nbytes)
    else:
        segment = SharedSegment.create(nbytes)
        segment.unlink()
        segment.close()
    assert _names() == before


def test_room_that_is_taken_meanwhile_is_said_and_the_name_goes(monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(errno.EDQUOT, "quota")

    monkeypatch.setattr(os, "posix_fallocate", full)
    before = _names()
    with pytest.raises(MemoryShort, match=os.strerror(errno.EDQUOT)):
        SharedSegment.create(4096)
    assert _names() == before


def test_an_interruption_comes_out_and_the_name_goes(monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "posix_fallocate", interrupted)
    before = _names()
    with pytest.raises(KeyboardInterrupt):
        SharedSegment.create(4096)
    assert _names() == before


def test_what_is_no_segment_of_ours_is_not_attached(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(AttachFailed, match=os.strerror(errno.ENOENT)):
        SharedSegment.attach("refengine-no-such", 1)
    name = f"{new_name()}-pipe"
    os.mkfifo(SHM / name)
    try:
        with pytest.raises(AttachFailed, match="not a file of this user"):
            SharedSegment.attach(name, 0)
    finally:
        (SHM / name).unlink()
    segment = SharedSegment.create(4096)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(AttachFailed, match="not a file of this user"):
        SharedSegment.attach(segment.name, 4096)
    segment.unlink()
    segment.close()


def _ends(say):
    new_directory()
    Path(SHM / new_name()).touch()
    removed = remove_own()
    try:
        late = str(new_directory())
    except OSError as error:
        late = str(error)
    say(([path.exists() for path in removed], late, _born_of_one_that_ends()))


def _born_of_one_that_ends() -> str:
    def makes(say):
        made = new_directory()
        say(made.name)
        remove_own()

    with Role(makes) as child:
        return child.hear()


def test_who_has_removed_its_own_makes_nothing_more_but_its_children_do():
    with Role(_ends) as role:
        removed, late, of_child = role.hear()
        assert removed == [False, False]
        assert "this process is ending" in late
        assert of_child.startswith("refengine-")
        assert leftovers(role.pid) == []
