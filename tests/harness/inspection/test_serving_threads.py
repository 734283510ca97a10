"""Threads that are at work as they are looked at, ZeroMQ's among them, and the kernel's own."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from scene import cast as tree
from scene import process

from killpoint.inspection.calls import Call
from killpoint.inspection.ends import Ends, FarEnd
from killpoint.inspection.holders import File, Holders
from killpoint.inspection.wait_graph import Fate, Node
from killpoint.inspection.wait_nodes import Builder, ProcessFacts

_WAITS = Call(10, 10, "S", "read", (5, 0, 0))
_ASLEEP = Call(10, 11, "S", "epoll_wait", (6, 0, 0, 0xFFFFFFFF), comm="ZMQbg/IO/0")
_AT_WORK = Call(10, 11, "R", "running", comm="ZMQbg/IO/0")


class _Files:
    """Descriptors of the process: the wake-up of a socket's mailbox, and a socket."""

    def file(self, _pid: int, fd: int) -> File:
        return File({5: "eventfd", 7: "socket"}[fd], fd, "rw", f"fd {fd}")


def _waiter(
    root: Path, monkeypatch: pytest.MonkeyPatch, peers: tuple[int, ...], now: Call, before: Call
) -> Node:
    info = root / "10" / "fdinfo" / "6"
    info.parent.mkdir(parents=True)
    info.write_text("tfd:        7 events:       19 data:   0\n")
    monkeypatch.setattr(Ends, "end", lambda *_args, **_more: FarEnd("socket", peers))
    known = tree(process(10), process(20))
    earlier = {(each.pid, each.tid): each for each in (_WAITS, before)}
    facts = ProcessFacts(known, {10: [_WAITS, now]}, frozenset(), [], 1, earlier)
    found = Builder(facts, cast(Holders, _Files()), root).nodes([10])
    return next(node for node in found if node.tid == 10)


@pytest.mark.parametrize("now", [_ASLEEP, _AT_WORK], ids=["asleep", "at-work"])
def test_a_peer_is_seen_also_while_the_thread_that_polls_it_is_at_work(
    now: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = _waiter(tmp_path, monkeypatch, (20,), now, _ASLEEP)
    assert [party.pid for party in node.parties] == [20]
    assert not node.beside


def test_who_was_at_work_at_both_looks_is_not_taken_to_have_no_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = _waiter(tmp_path, monkeypatch, (20,), _AT_WORK, _AT_WORK)
    assert not node.beside
    assert "cannot be seen while they are at work" in node.doubt


def test_without_a_peer_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = _waiter(tmp_path, monkeypatch, (), _AT_WORK, _ASLEEP)
    assert node.beside.startswith("no peer of its ZeroMQ sockets is connected")


def test_a_thread_of_the_kernels_io_uring_rests(tmp_path: Path) -> None:
    idle = Call(10, 12, "S", "426", comm="iou-wrk-10", wchan="io_wq_worker")
    facts = ProcessFacts(tree(process(10)), {10: [idle]}, frozenset(), [], 1)
    (node,) = Builder(facts, cast(Holders, _Files()), tmp_path).nodes([10])
    assert (node.fate, node.waits, node.servant) == (Fate.GOES, False, True)


def test_who_is_at_work_has_to_do_with_whom_it_polled_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ends, "end", lambda *_args, **_more: FarEnd("socket", (20,)))
    known = tree(process(10), process(20, 10))
    now, before = Call(10, 10, "R", "running"), Call(10, 10, "S", "read", (7, 0, 0))
    for earlier, parties in (({(10, 10): before}, [20]), ({}, [])):
        facts = ProcessFacts(known, {10: [now]}, frozenset(), [], 1, earlier)
        (node,) = Builder(facts, cast(Holders, _Files()), tmp_path).nodes([10])
        assert (node.fate, [party.pid for party in node.parties]) == (Fate.GOES, parties)
