"""Rules for ends of ranks, and for rings that come up (H4): each convicts, and acquits."""

from __future__ import annotations

from pipe_calls import Calls

from killpoint.scenario import PipeClose


def waiting(second: float) -> Calls:
    """Two transfers wait; the second is over at that time."""
    calls = Calls()
    calls.sends_blocks(0, "a-0", (0.0, 1.01), "closed", lease=9.0)
    calls.sends_blocks(0, "a-1", (0.0, second), "closed", lease=9.0)
    return calls


def test_all_who_wait_are_told_of_a_death_in_time() -> None:
    assert waiting(1.02).dies(1, 1.0).holds()
    found = waiting(4.0).dies(1, 1.0).violation()
    assert found.kind == "late"
    assert "blocks-send of 'a-1'" in found.cause
    assert "3.00 s after the death of pipe-1" in found.cause


def test_all_who_wait_are_told_of_a_close_in_time() -> None:
    assert waiting(1.02).closes(1, (0.9, 1.0)).holds()
    assert "after the close of pipe-1" in waiting(4.0).closes(1, (0.9, 1.0)).violation().cause
    own = waiting(4.0).closes(0, (0.9, 1.0))
    assert "after the close of pipe-0" in own.violation().cause


def test_threads_that_wait_for_room_are_told_too() -> None:
    def told(at: float) -> Calls:
        calls = Calls(limit=10)
        calls.sends(0, (0.0, 0.01), size=10)
        calls.sends(0, (0.1, at), "peer-died", size=10, timeout=9.0)
        return calls.dies(1, 1.0)

    assert told(1.1).holds()
    assert told(3.5).violation().kind == "late"


def test_nothing_fails_before_the_end() -> None:
    calls = Calls()
    calls.sends_blocks(0, "a", (0.0, 0.5), "closed", lease=9.0)
    assert calls.dies(1, 1.0).violation().kind == "lost"


def test_what_the_dead_one_did_is_not_judged() -> None:
    calls = Calls()
    calls.sends_blocks(1, "a", (0.0, None), lease=9.0)
    calls.asks(1, "b", (0.0, None), timeout=9.0)
    assert calls.dies(1, 1.0).holds()


def test_what_others_do_far_from_the_end_is_judged_by_its_own_time() -> None:
    calls = Calls(size=4)
    calls.dies(1, 1.0)
    assert calls.misses(3, (0.0, 5.0), timeout=5.0).holds()
    assert calls.misses(2, (0.0, 5.0), timeout=5.0).violation().kind == "late"


def test_a_ring_comes_up_at_every_rank() -> None:
    calls = Calls(size=4)
    for rank in (0, 2, 1):
        calls.opens(rank, rank / 10, "ok")
    calls.misses(1, (1.0, 1.1), timeout=0.1)
    assert calls.opens(3, 0.5, "ok").holds()
    found = calls.opens(3, 0.5, "timeout").violation()
    assert found.kind == "lost"
    assert "pipe-3's end of the pipe could not be made" in found.cause


def test_a_close_fails_only_in_a_program_with_an_end() -> None:
    calls = Calls()
    calls.misses(1, (0.0, 0.1), timeout=0.1)
    calls.closes(1, (1.0, 1.1), "lost")
    assert calls.violation().kind == "lost"
    calls.steps = [PipeClose(("pipe-1",))]
    assert calls.holds()
