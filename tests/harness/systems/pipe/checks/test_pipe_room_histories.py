"""Rules for threads that wait for room (H4): each convicts, and acquits what is proper."""

from __future__ import annotations

from pipe_calls import Calls


def crowded(*, gives_up: float, passes: float | None, outcome: str = "ok") -> Calls:
    """Much is sent; what does not fit beside it waits, and behind that what does fit."""
    calls = Calls(limit=100)
    much = calls.sends(0, (0.0, 0.01), size=60)
    calls.sends(0, (0.1, gives_up), "timeout", size=50, timeout=gives_up - 0.1)
    little = calls.sends(0, (0.2, passes), outcome, size=10, timeout=2.0)
    if outcome == "ok":
        calls.gets(1, (3.0, 3.1), much).gets(1, (3.1, 3.2), little)
    return calls


def test_a_send_passes_once_who_waited_before_it_gives_up() -> None:
    assert crowded(gives_up=0.5, passes=0.51).holds()
    found = crowded(gives_up=0.5, passes=1.5).violation()
    assert found.kind == "starved"
    assert "was sent only 1.00 s after there was room for it" in found.cause


def test_a_send_that_gives_up_though_there_is_room() -> None:
    found = crowded(gives_up=0.5, passes=2.2, outcome="timeout").violation()
    assert found.kind == "starved"
    assert "found no room, and gave up" in found.cause


def test_a_send_waits_behind_one_that_waits() -> None:
    assert crowded(gives_up=2.0, passes=2.1).holds()


def test_what_is_larger_than_the_buffer_passes_once_nothing_is_in_it() -> None:
    def large(passes: float) -> Calls:
        calls = Calls(limit=100)
        first = calls.sends(0, (0.0, 0.01), size=10)
        large = calls.sends(0, (0.1, passes), size=500)
        return calls.gets(1, (1.0, 1.1), first).gets(1, (2.9, 3.0), large)

    assert large(1.2).holds()
    assert large(2.8).violation().kind == "starved"


def test_a_room_that_is_full_keeps_a_send_to_its_deadline() -> None:
    calls = Calls(limit=100)
    calls.sends(0, (0.0, 0.01), size=60)
    calls.sends(0, (0.1, 1.1), "timeout", size=50, timeout=1.0)
    assert calls.holds()


def test_tensors_of_two_threads_come_in_either_order() -> None:
    for order in ((0, 1), (1, 0)):
        calls = Calls()
        sent = [calls.sends(0, (0.0, 0.5)), calls.sends(0, (0.1, 0.4))]
        for place in order:
            calls.gets(1, (0.6, 0.7), sent[place])
        assert calls.holds()


def test_tensors_of_one_thread_come_in_order_and_once() -> None:
    calls = Calls()
    first, second = calls.sends(0, (0.0, 0.1)), calls.sends(0, (0.2, 0.3))
    assert calls.gets(1, (0.6, 0.7), second).violation().kind == "reordered"

    twice = Calls()
    first = twice.sends(0, (0.0, 0.1))
    assert twice.gets(1, (0.6, 0.7), first).holds()
    assert twice.gets(1, (0.8, 0.9), first).violation().kind == "duplicate"
    assert Calls().gets(1, (0.6, 0.7), "strange").violation().kind == "wrong-data"


def test_a_receive_finds_nothing_only_while_nothing_is_due() -> None:
    calls = Calls()
    calls.sends(0, (0.0, 0.1))
    assert calls.misses(1, (0.2, 0.5), timeout=0.3).holds()
    assert calls.misses(1, (0.6, 1.1), timeout=0.5).violation().kind == "starved"


def test_nothing_fails_while_all_ranks_are_there() -> None:
    calls = Calls()
    calls.sends(0, (0.0, 0.1), "closed")
    assert "and no rank was gone" in calls.violation().cause


def test_calls_end_in_their_own_time() -> None:
    early = Calls().misses(1, (0.0, 0.1), timeout=0.5).violation()
    late = Calls().misses(1, (0.0, 1.1), timeout=0.5).violation()
    assert (early.kind, late.kind) == ("late", "late")
    assert Calls().misses(1, (0.0, 0.5), timeout=0.5).holds()


def test_a_buffer_is_empty_when_all_was_received() -> None:
    calls = Calls()
    calls.gets(1, (0.2, 0.3), calls.sends(0, (0.0, 0.1)))
    assert calls.keeps(0, 1.0, 0).holds()
    assert calls.keeps(0, 1.1, 10).violation().kind == "leak"
