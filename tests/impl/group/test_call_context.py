"""Which calls may start, and how they wait: until they are woken, at most until the deadline."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from refengine.errors import (
    DeadlinePassed,
    ForkedCopy,
    GroupClosed,
    NotReady,
    RankRefused,
    RefengineError,
)
from refengine.group.call_context import CallContext
from refengine.group.member import Member


class Script:
    """Stands for the wakers of a member: what happens during each sleep is written down before."""

    def __init__(self, *turns: Callable[[], Any]) -> None:
        self.now, self.turns, self.sleeps, self.waiting = 100.0, list(turns), [], 0
        self.woken = 0

    def add(self) -> "Script":
        self.waiting += 1
        return self

    def remove(self, waker: "Script") -> None:
        assert waker is self
        self.waiting -= 1

    def wake_all(self) -> None:
        self.woken += 1

    def sleep(self, seconds: float | None) -> None:
        assert self.waiting == 1
        self.sleeps.append(seconds)
        if self.turns:
            self.turns.pop(0)()
        else:
            assert seconds is not None, "nothing will wake it"
            self.now += seconds


class Link:
    address = "tcp://nowhere:1"

    def __init__(self) -> None:
        self.closed: list[float] = []
        self.settled: list[float] = []
        self.can_go_back = True
        self.taken_back = 0

    def post(self, frame: bytes | bytearray) -> None:
        raise AssertionError

    def reached(self) -> bool:
        return True

    def settle(self, within: float) -> None:
        self.settled.append(within)

    def take_back(self) -> bool:
        self.taken_back += 1
        return self.can_go_back

    def close(self, seconds: float) -> None:
        self.closed.append(seconds)


def context(script: Script) -> CallContext:
    member = Member(0, 2)
    member.wakers = script
    return CallContext(member, Link(), lambda: script.now)


def nothing() -> RefengineError | None:
    return None


def test_what_is_there_is_not_waited_for_and_beats_an_obstacle_and_the_deadline():
    script = Script()
    error = GroupClosed("rank 1")
    context(script).wait(lambda: True, lambda: error, -1.0, "it")
    assert (script.sleeps, script.waiting) == ([], 0)


def test_an_obstacle_beats_the_deadline():
    error, script = GroupClosed("rank 1"), Script()
    with pytest.raises(GroupClosed) as caught:
        context(script).wait(lambda: False, lambda: error, -1.0, "it")
    assert caught.value is error
    assert script.waiting == 0


def test_an_obstacle_is_looked_at_before_what_it_could_have_followed():
    looks: list[str] = []

    def obstacle() -> RefengineError | None:
        looks.append("obstacle")
        return None

    def is_there() -> bool:
        looks.append("there")
        return True

    context(Script()).wait(is_there, obstacle, 1.0, "it")
    assert looks == ["obstacle", "there"]


@pytest.mark.parametrize("timeout", [0, 0.0, -2.5])
def test_a_deadline_that_is_over_is_told_without_a_sleep(timeout: float):
    script = Script()
    with pytest.raises(DeadlinePassed) as caught:
        context(script).wait(lambda: False, nothing, timeout, "it")
    assert (caught.value.waiting_for, caught.value.seconds) == ("it", timeout)
    assert script.sleeps == []


def test_it_sleeps_until_the_deadline_and_tells_how_long_that_was():
    script = Script()
    with pytest.raises(DeadlinePassed) as caught:
        context(script).wait(lambda: False, nothing, 2.5, "it")
    assert script.sleeps == [2.5]
    assert (caught.value.waiting_for, caught.value.seconds) == ("it", 2.5)
    assert script.waiting == 0


def test_half_a_second_left_is_slept_too():
    script = Script()
    with pytest.raises(DeadlinePassed):
        context(script).wait(lambda: False, nothing, 0.5, "it")
    assert script.sleeps == [0.5]


def test_each_wake_up_is_a_new_look_and_the_rest_of_the_time():
    there: list[int] = []

    def pass_a_second() -> None:
        script.now += 1

    script = Script(pass_a_second, lambda: there.append(1))
    context(script).wait(lambda: bool(there), nothing, 3.0, "it")
    assert script.sleeps == [3.0, 2.0]


def test_without_a_deadline_it_sleeps_until_it_is_woken():
    there: list[int] = []
    script = Script(lambda: None, lambda: there.append(1))
    context(script).wait(lambda: bool(there), nothing, None, "it")
    assert script.sleeps == [None, None]


def test_who_waits_is_told_that_its_rank_leaves():
    script = Script(lambda: here.close(0))
    here = context(script)
    with pytest.raises(GroupClosed, match="this rank"):
        here.wait(lambda: False, nothing, None, "it")


def test_a_new_seat_is_not_ready_and_nothing_else_is_wrong():
    here = context(Script())
    here.check()
    with pytest.raises(NotReady, match="send_obj"):
        here.enter("send_obj")
    here.ready = True
    here.enter("send_obj")


def test_a_refusal_is_raised_by_every_call():
    here = context(Script())
    here.ready = True
    refusal = RankRefused(0, "taken", "group")
    here.member.refuse(refusal)
    for call in (here.check, lambda: here.enter("send_obj")):
        with pytest.raises(RankRefused) as caught:
            call()
        assert caught.value is refusal


def test_a_close_refuses_further_calls_wakes_the_waiting_ones_then_hands_over():
    script = Script()
    here = context(script)
    here.ready = True
    here.close(1.5)
    assert (script.woken, here.link.closed) == (1, [1.5])
    with pytest.raises(GroupClosed, match="this rank"):
        here.enter("send_obj")


def test_a_forks_copy_is_told_whose_it_is_and_closes_nothing(monkeypatch: pytest.MonkeyPatch):
    script = Script()
    here, pid = context(script), os.getpid()
    here.ready = True
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    with pytest.raises(ForkedCopy) as caught:
        here.enter("send_obj")
    assert caught.value.facts == (pid, "group")
    here.close(1)
    assert here.take_back()
    assert (script.woken, here.link.closed, here.link.taken_back) == (0, [], 0)


def test_a_coming_stands_a_second_after_all_are_there_or_with_the_first_use():
    here = context(Script())
    here.begin()
    assert (here.ready, here.link.settled) == (True, [1.0])
    for _ in range(2):
        here.enter("send_obj")
    assert here.link.settled == [1.0, 0.0]


def test_who_was_ready_leaves_for_all_to_see_and_who_was_not_has_nothing_to_hand_over():
    here = context(Script())
    here.close(1.5)
    assert (here.link.settled, here.link.closed) == ([], [0.0])
    here = context(Script())
    here.begin()
    here.close(1.5)
    assert (here.link.settled, here.link.closed) == ([1.0, 0.0], [1.5])


def test_a_coming_that_is_taken_back_wakes_the_waiting_calls_and_is_so_once():
    script = Script()
    here = context(script)
    for _ in range(2):
        assert here.take_back()
    assert (script.woken, here.link.taken_back, here.link.closed) == (1, 1, [])
    with pytest.raises(GroupClosed, match="this rank"):
        here.check()


def test_a_coming_that_cannot_be_taken_back_any_more_goes_on():
    script = Script()
    here = context(script)
    here.link.can_go_back = False
    assert not here.take_back()
    assert script.woken == 0
    here.check()
