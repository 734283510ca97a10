"""Without a descriptor left: an error, and no verdict on whether others live."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from refengine.base.fds import FdReserve, ensure_fds_available
from refengine.base.ownership import Owner


@contextlib.contextmanager
def _none_left() -> Iterator[None]:
    """A limit under which nothing more can be opened."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_room_that_is_not_there_is_an_error() -> None:
    with _none_left():
        ensure_fds_available(0)
        try:
            ensure_fds_available(1)
        except OSError as error:
            number = error.errno
    assert number == errno.EMFILE


def test_a_reserve_that_cannot_be_had_holds_nothing() -> None:
    before = _open()
    with pytest.raises(OSError, match="Too many"), _none_left():
        FdReserve(1)
    assert _open() == before


def test_a_reserve_keeps_what_it_is_told_to() -> None:
    reserve = FdReserve(2)
    before = _open()
    reserve.close_all_but(1)
    assert _open() == before - 1
    reserve.close()
    reserve.close_all_but(1)
    assert _open() == before - 2


def test_who_cannot_be_looked_at_is_not_gone() -> None:
    me, dead = Owner.me(), Owner(Owner.me().namespace, os.getpid(), 1)
    assert dead.is_gone()
    with _none_left():
        gone = me.is_gone(), dead.is_gone()
    assert gone == (False, False)
