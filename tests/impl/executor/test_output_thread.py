"""Replies that leave through a thread of their own (SPEC 5, W6)."""

import pytest

from refengine.executor import CallFailed

from .workers import pool


@pytest.fixture(scope="module")
def threaded():
    with pool(output_thread=True, in_flight=3) as made:
        yield made


@pytest.mark.parametrize(
    ("method", "args", "reason"),
    [
        ("deferred", (OSError("late"),), "OSError: late"),
        ("deferred", (SystemExit(7),), "SystemExit: 7"),
        ("unsendable", (), "Unencodable"),
        ("unsendable_exit", (), "SystemExit: 6"),
        ("fail_with", (ValueError("x"),), "ValueError: x"),
    ],
)
def test_what_it_raises_is_told_and_the_pool_goes_on(threaded, method, args, reason):
    with pytest.raises(CallFailed, match=reason):
        threaded.collective_rpc(method, 5.0, args)
    assert threaded.collective_rpc("pid", 5.0) == threaded.pids


def test_results_are_made_there(threaded):
    assert threaded.collective_rpc("deferred", 5.0) == ["output", "output"]


def test_a_worker_begins_the_next_call_before_the_reply_to_the_last_is_sent(threaded, tmp_path):
    """A result that waits for what only the next call does: in one thread it would never come."""
    path = str(tmp_path / "next")
    first = threaded.collective_rpc("made_once", 9.0, (path,), non_block=True, unique_reply_rank=0)
    second = threaded.collective_rpc("touch", 9.0, (path,), non_block=True, unique_reply_rank=0)
    assert [first.result(9.0), second.result(9.0)] == ["made", 0]
