"""Calls over queues without memory: whose reply is whose (W2)."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.errors import DeadlinePassed, Undecodable
from refengine.executor import CallFailed, rpc
from refengine.executor.rpc import RpcChannel


class Queue:
    """A queue of replies, and the one of requests, without memory."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.sent: list[Any] = []
        self.full = 0
        self.asked: list[float | None] = []

    def enqueue(self, request: Any, timeout: float | None = None) -> None:
        self.asked.append(timeout)
        if self.full:
            self.full -= 1
            raise DeadlinePassed("a slot", timeout or 0)
        self.sent.append(request)

    def dequeue(self, timeout: float | None) -> Any:
        self.asked.append(timeout)
        if not self.replies:
            raise DeadlinePassed("a message", timeout or 0)
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply


def channel_over(*queues: Queue) -> tuple[Any, Queue]:
    requests: Any = Queue()
    replies: Any = queues
    return RpcChannel(requests, replies), requests


def ask(channel: Any, only: int | None = None, timeout: float | None = 1.0, **more: Any) -> int:
    return channel.send("work", (1,), {}, only, timeout, **more)


class TestRpcChannel:
    def test_replies_of_calls_that_were_given_up_are_dropped(self):
        one, two = Queue((1, True, "old"), (2, True, "a")), Queue((2, True, "b"))
        channel, requests = channel_over(one, two)
        assert [ask(channel, in_turn=False), ask(channel, in_turn=False)] == [1, 2]
        assert requests.sent == [(n, "work", (1,), {}, None) for n in (1, 2)]
        assert channel.collect(2, "work", [0, 1], lambda: 0.5) == ["a", "b"]
        assert one.asked == [0.5, 0.5]
        assert channel.unanswered(2) == []

    def test_who_is_missing_is_known(self):
        one, two = Queue((1, True, "a")), Queue()
        channel, _ = channel_over(one, two)
        ask(channel)
        assert channel.unanswered(1) == [0, 1]
        with pytest.raises(DeadlinePassed):
            channel.collect(1, "work", [0, 1], lambda: 0.0)
        assert channel.unanswered(1) == [1]
        ask(channel, only=0, in_turn=False)
        assert channel.unanswered(2) == [0]

    def test_a_failure_is_told_with_its_rank(self):
        channel, _ = channel_over(Queue((1, True, "a")), Queue((1, False, ("why", "where"))))
        ask(channel)
        with pytest.raises(CallFailed) as failure:
            channel.collect(1, "work", [0, 1], lambda: None)
        assert failure.value.facts == (1, "work", "why", "where")

    def test_left_over_replies_are_dropped_before_a_call_that_has_the_turn(self):
        one, two = Queue((1, True, "a"), (2, True, "b")), Queue()
        channel, requests = channel_over(one, two)
        ask(channel, in_turn=False)
        ask(channel, only=0, in_turn=False)
        requests.full = 2
        assert ask(channel, timeout=None) == 3
        assert one.replies == []
        assert set(one.asked) == {0.0}
        assert len(two.asked) == 3
        assert requests.asked[-3:] == [0.02] * 3

    def test_when_nothing_is_left_over_it_asks_at_once_for_its_whole_time(self):
        one = Queue((1, True, "a"))
        channel, requests = channel_over(one)
        ask(channel, timeout=7.0)
        channel.collect(1, "work", [0], lambda: 1.0)
        ask(channel, timeout=7.0)
        assert requests.asked == [7.0, 7.0]

    def test_a_full_queue_costs_its_deadline(self, monkeypatch):
        channel, requests = channel_over(Queue())
        now = [100.0]
        monkeypatch.setattr(rpc, "time", SimpleNamespace(monotonic=lambda: now[0]))
        ask(channel)

        def full(request: Any, timeout: float) -> None:
            requests.asked.append(timeout)
            now[0] += timeout
            raise DeadlinePassed("a slot", timeout)

        channel._enqueue = full
        with pytest.raises(DeadlinePassed, match=r"0\.05 s for a worker to take a request"):
            ask(channel, timeout=0.05)
        assert requests.asked[1:] == pytest.approx([0.02, 0.02, 0.01])
        with pytest.raises(DeadlinePassed, match="waited 0 s for a worker"):
            ask(channel, timeout=0.0)
        assert len(requests.asked) == 5

    def test_a_request_that_was_not_taken_is_due_from_nobody(self):
        channel, requests = channel_over(Queue())
        requests.full = 1
        with pytest.raises(DeadlinePassed):
            ask(channel)
        assert channel.unanswered(1) == []
        assert ask(channel) == 2

    def test_a_reply_that_cannot_be_decoded_is_its_calls_failure(self):
        error = Undecodable(1)
        error.undecoded = pickle.dumps((1, True, "x"))
        error.__cause__ = ValueError("no class")
        channel, _ = channel_over(Queue(error))
        ask(channel)
        with pytest.raises(CallFailed) as failure:
            channel.collect(1, "work", [0], lambda: None)
        assert failure.value.reason == "its result cannot be decoded here: ValueError('no class')"
        assert failure.value.traceback == ""

    def test_one_without_a_number_is_raised_as_it_is(self):
        channel, _ = channel_over(Queue(Undecodable(1)))
        ask(channel)
        with pytest.raises(Undecodable):
            channel.collect(1, "work", [0], lambda: None)
