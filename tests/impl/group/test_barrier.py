"""Coming to a meeting, without any I/O: what is posted, what is waited for, what is left behind."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from refengine.errors import (
    BarrierFailed,
    Busy,
    DeadlinePassed,
    GroupClosed,
    NotReady,
    Undecodable,
)
from refengine.group.barrier import wait_all
from refengine.group.call_context import CallContext
from refengine.group.exit_reason import ExitReason
from refengine.group.member import Member
from refengine.group.protocol import (
    Channel,
    Frame,
    Kind,
    pack,
    pack_bodies,
    pack_object,
    pack_ranks,
    unpack,
)
from refengine.transport import Gone

from .test_call_context import Link, Script

CHANNELS = list(Channel)


class Interrupted(BaseException):
    pass


class Told(Link):
    """Keeps what was posted; may answer at once."""

    def __init__(self) -> None:
        super().__init__()
        self.posts: list[Frame] = []
        self.answer: Callable[[Frame], Any] = lambda _: None
        self.is_reached = True

    def post(self, frame: bytes | bytearray) -> None:
        self.posts.append(unpack(bytes(frame)))
        self.answer(self.posts[-1])

    def reached(self) -> bool:
        return self.is_reached

    @property
    def kinds(self) -> list[Kind]:
        return [frame.kind for frame in self.posts]


class Place:
    """Rank 1 of 3, with nobody at the other end."""

    def __init__(self, *turns: Callable[[], Any]) -> None:
        self.script, self.link, self.member = Script(*turns), Told(), Member(1, 3)
        self.member.wakers = self.script
        self.context = CallContext(self.member, self.link, lambda: self.script.now)
        self.context.ready = True

    def wait_all(self, channel: Channel, timeout: float | None = 4.0, obj: object = "mine") -> Any:
        return wait_all(self.context, channel, obj, timeout)

    def release(self, channel: Channel, number: int = 0, *objects: object) -> None:
        bodies = [unpack(pack_object(Kind.COME, 0, 0, 0, each)).body for each in objects]
        self.member.hear(pack(Kind.MET, 0, channel, number, pack_bodies(bodies)))

    def say(self, channel: Channel, there: list[int], gave_up: list[int]) -> None:
        body = pack_bodies([pack_ranks(there), pack_ranks(gave_up)])
        self.member.hear(pack(Kind.WHO, 0, channel, 0, body))


@pytest.mark.parametrize("channel", CHANNELS)
def test_one_that_came_tells_the_host_its_rank_and_the_number_of_the_meeting(channel: Channel):
    here = Place()
    ticket = here.member.tickets[channel]
    ticket.number = 6
    here.link.answer = lambda _: here.release(channel, 6, *("abc" * (channel is Channel.GATHER)))
    got = here.wait_all(channel)
    (come,) = here.link.posts
    assert come[:4] == (Kind.COME, 1, channel, 6)
    assert bool(come.body) is (channel is Channel.GATHER)
    assert got == (["a", "b", "c"] if channel is Channel.GATHER else [])
    assert (ticket.number, ticket.met) == (7, None)
    assert not ticket.guard.held


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_deadline_asks_half_way_who_is_absent_then_withdraws(channel: Channel):
    here = Place()
    with pytest.raises(DeadlinePassed) as caught:
        here.wait_all(channel)
    assert here.script.sleeps == [2.0, 2.0]
    assert here.link.kinds == [Kind.COME, Kind.ASK, Kind.WITHDRAW]
    assert {frame[1:4] for frame in here.link.posts} == {(1, channel, 0)}
    assert caught.value.seconds == 4.0
    assert not here.member.tickets[channel].guard.held
    assert here.member.tickets[channel].number == 0


def test_what_comes_after_the_question_counts():
    here = Place()
    here.link.answer = lambda frame: frame.kind is Kind.ASK and here.release(Channel.BARRIER)
    assert here.wait_all(Channel.BARRIER) == []
    assert here.link.kinds == [Kind.COME, Kind.ASK]


@pytest.mark.parametrize("timeout", [0, -1.0])
def test_a_deadline_that_is_over_is_told_as_it_was_given(timeout: float):
    here = Place()
    with pytest.raises(DeadlinePassed) as caught:
        here.wait_all(Channel.BARRIER, timeout)
    assert caught.value.seconds == timeout
    assert here.script.sleeps == []


def test_without_a_deadline_nobody_is_asked():
    here = Place(lambda: None, lambda: here.release(Channel.BARRIER))
    assert here.wait_all(Channel.BARRIER, None) == []
    assert here.script.sleeps == [None, None]
    assert here.link.kinds == [Kind.COME]


@pytest.mark.parametrize(
    ("channel", "there", "text"),
    [
        (Channel.START, [0, 1], "rank 2 to join the group"),
        (Channel.START, [1], "ranks 0, 2 to join the group"),
        (Channel.GATHER, [1, 2], "rank 0 to give an object"),
        (Channel.GATHER, [1], "ranks 0, 2 to give an object"),
    ],
)
def test_the_absent_are_named_with_what_they_were_to_do(
    channel: Channel, there: list[int], text: str
):
    here = Place()
    here.link.answer = lambda frame: frame.kind is Kind.ASK and here.say(channel, there, [])
    with pytest.raises(DeadlinePassed) as caught:
        here.wait_all(channel)
    assert caught.value.waiting_for == text


def test_a_barrier_names_the_absent_as_numbers():
    here = Place()
    here.link.answer = lambda frame: frame.kind is Kind.ASK and here.say(Channel.BARRIER, [1], [0])
    with pytest.raises(BarrierFailed) as caught:
        here.wait_all(Channel.BARRIER)
    assert (caught.value.missing, caught.value.seconds) == ([2], 4.0)


def test_a_host_that_never_answered_is_named_instead():
    here = Place()
    here.link.is_reached = False
    with pytest.raises(DeadlinePassed, match="rank 0 at tcp://nowhere:1 to answer") as caught:
        here.wait_all(Channel.BARRIER)
    assert not isinstance(caught.value, BarrierFailed)
    assert "missed" not in str(caught.value)


def test_a_host_that_gave_up_is_named_with_those_whom_it_missed():
    here = Place()
    here.link.answer = lambda _: here.say(Channel.START, [1, 0], [])
    here.link.is_reached = False
    with pytest.raises(DeadlinePassed, match=r"rank 0 at .* before it gave up it missed rank 2"):
        here.wait_all(Channel.START)
    here.link.answer = lambda _: here.say(Channel.START, [1, 2], [])
    with pytest.raises(DeadlinePassed) as caught:
        here.wait_all(Channel.START)
    assert "missed" not in str(caught.value)


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_death_ends_the_wait_and_the_call_withdraws(channel: Channel):
    here = Place(lambda: here.member.host_gone(Gone("closed")))
    with pytest.raises(GroupClosed):
        here.wait_all(channel, None)
    assert here.link.kinds == [Kind.COME, Kind.WITHDRAW]


@pytest.mark.parametrize("half", [0, 1])
def test_a_death_in_either_half_of_the_wait_is_told(half: int):
    def die() -> None:
        told = ExitReason(2, Gone("closed")).pack()
        here.member.hear(pack(Kind.GONE, 2, body=told))

    def pass_half() -> None:
        here.script.now += 2

    here = Place(*([pass_half] * half), die)
    with pytest.raises(GroupClosed, match="rank 2"):
        here.wait_all(Channel.BARRIER)


def test_a_release_that_is_there_already_is_given_at_once_and_nothing_is_posted():
    here = Place()
    here.release(Channel.GATHER, 0, "a", "b", "c")
    assert here.wait_all(Channel.GATHER, 0) == ["a", "b", "c"]
    assert here.link.posts == []


def test_only_a_start_goes_before_the_group_is_ready():
    here = Place()
    here.context.ready = False
    for channel in (Channel.BARRIER, Channel.GATHER):
        with pytest.raises(NotReady):
            here.wait_all(channel)
        assert not here.member.tickets[channel].guard.held
    assert here.link.posts == []
    here.link.answer = lambda _: here.release(Channel.START)
    assert here.wait_all(Channel.START) == []


def test_nothing_is_posted_once_this_rank_has_left():
    here = Place()
    here.context.close(0)
    for channel in CHANNELS:
        with pytest.raises(GroupClosed, match="this rank"):
            here.wait_all(channel)
    assert here.link.posts == []


def test_a_second_call_from_within_is_told_and_the_first_goes_on():
    def again() -> None:
        with pytest.raises(Busy):
            here.wait_all(Channel.GATHER)
        assert here.link.kinds == [Kind.COME]
        assert here.member.tickets[Channel.GATHER].guard.held
        here.release(Channel.GATHER, 0, "a", "b", "c")

    here = Place(again)
    assert here.wait_all(Channel.GATHER) == ["a", "b", "c"]


def test_a_call_that_loses_the_race_for_its_guard_does_not_wait_for_it():
    here = Place()
    guard, asked = here.member.tickets[Channel.BARRIER].guard, []
    guard.acquire = lambda *how: asked.append(how)
    with pytest.raises(Busy, match="the other ranks at the barrier"):
        here.wait_all(Channel.BARRIER)
    assert asked == [(False,)]
    assert not guard.held
    assert here.link.posts == []


def test_meetings_for_different_things_do_not_disturb_each_other():
    def meanwhile() -> None:
        here.link.answer = lambda _: here.release(Channel.BARRIER)
        assert here.wait_all(Channel.BARRIER) == []
        here.release(Channel.GATHER, 0, "a", "b", "c")

    here = Place(meanwhile)
    assert here.wait_all(Channel.GATHER) == ["a", "b", "c"]


def test_an_object_that_cannot_be_packed_was_never_brought():
    here = Place()
    with pytest.raises(Exception, match="cannot encode"):
        here.wait_all(Channel.GATHER, obj=lambda: 0)
    assert here.link.posts == []


class Poison:
    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_a_gather_with_a_bad_object_is_consumed_and_names_its_number():
    here = Place()
    ticket = here.member.tickets[Channel.GATHER]
    ticket.number = 3
    here.release(Channel.GATHER, 3, "a", Poison(), "c")
    with pytest.raises(Undecodable) as caught:
        here.wait_all(Channel.GATHER)
    assert caught.value.number == 3
    assert (ticket.number, ticket.met) == (4, None)
    assert here.link.posts == []


def test_an_exception_on_the_way_out_leaves_the_result_for_the_next_call():
    here = Place()
    ticket = here.member.tickets[Channel.GATHER]
    guard, leave = ticket.guard, ticket.guard.exit

    def strike() -> None:
        guard.exit = leave
        raise Interrupted

    guard.exit = strike
    here.release(Channel.GATHER, 0, "a", "b", "c")
    with contextlib.suppress(Interrupted):
        here.wait_all(Channel.GATHER)
    assert ticket.number == 0
    assert here.wait_all(Channel.GATHER, 0) == ["a", "b", "c"]
    assert here.link.posts == []
