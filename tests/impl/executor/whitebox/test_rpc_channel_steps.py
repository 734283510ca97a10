"""Calls over queues without memory: whose reply is whose (W2)."""

from types import SimpleNamespace
from typing import Any

import pytest

from refengine.errors import DeadlinePassed
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

    def test_of_a_call_that_got_no_reply_in_time_who_answered_is_not_told(self):
        late, well, failed = Queue(), Queue((1, True, "b"), (2, True, "c")), Queue((1, False, ""))
        channel, _ = channel_over(late, well, failed)
        for _ in range(2):
            ask(channel, in_turn=False)
        with pytest.raises(DeadlinePassed):
            channel.collect(1, "work", [0, 1, 2], lambda: 0.0)
        assert channel.unanswered(1, [0, 1, 2]) == [0]
        assert well.replies == [(2, True, "c")]  # it belongs to the next call

    def test_nor_who_was_not_asked(self):
        channel, _ = channel_over(Queue(), Queue())
        ask(channel, only=1, in_turn=False)
        ask(channel, in_turn=False)
        with pytest.raises(DeadlinePassed):
            channel.collect(1, "work", [1], lambda: 0.0)
        assert channel.unanswered(1, [1]) == [1]

    def test_a_reply_that_comes_after_the_deadline_is_late(self):
        late = Queue()
        channel, _ = channel_over(late)
        ask(channel)
        with pytest.raises(DeadlinePassed):
            channel.collect(1, "work", [0], lambda: 0.0)
        late.replies.append((1, True, "a"))
        assert channel.unanswered(1, [0]) == [0]

    def test_an_observer_is_told_every_result_whenever_it_is_read(self):
        seen: list[tuple[int, Any]] = []

        def observe(rank: int, value: Any) -> None:
            seen.append((rank, value))

        one, two, three = Queue((1, True, "a")), Queue((1, False, ("no", ""))), Queue()
        channel, _ = channel_over(one, two, three)
        ask(channel, observe=observe)
        with pytest.raises(CallFailed):
            channel.collect(1, "work", [0, 1, 2], lambda: 1.0)
        assert seen == [(0, "a")]
        three.replies += [(1, True, "c"), (2, True, "unobserved")]
        ask(channel, only=2)  # it drops what is left over, if there is any
        assert channel.collect(2, "work", [2], lambda: 1.0) == ["unobserved"]
        assert seen == [(0, "a"), (2, "c")]

    def test_so_it_is_when_they_come_after_the_deadline(self):
        seen: list[tuple[int, Any]] = []
        late, well = Queue(), Queue((1, True, "b"))
        channel, _ = channel_over(late, well)
        ask(channel, observe=lambda *told: seen.append(told))
        with pytest.raises(DeadlinePassed):
            channel.collect(1, "work", [0, 1], lambda: 0.0)
        assert channel.unanswered(1, [0, 1]) == [0]
        late.replies += [(1, True, "a"), (2, True, "c")]
        well.replies.append((2, True, "d"))
        ask(channel)
        assert channel.collect(2, "work", [0, 1], lambda: 1.0) == ["c", "d"]
        assert seen == [(1, "b"), (0, "a")]

    def test_an_observer_is_kept_while_a_rank_may_answer_and_no_longer(self):
        one, two = Queue((1, True, "a")), Queue()
        channel, _ = channel_over(one, two)
        for _ in range(2):
            ask(channel, observe=lambda *_: None, in_turn=False)
        with pytest.raises(DeadlinePassed):
            channel.collect(1, "work", [0, 1], lambda: 0.0)
        ask(channel, observe=lambda *_: None, in_turn=False)
        assert list(channel._observers) == [1, 2, 3]
        one.replies += [(2, True, "a"), (3, True, "a")]
        two.replies += [(n, True, "b") for n in (1, 2, 3)]
        channel.collect(3, "work", [0, 1], lambda: 1.0)
        ask(channel, observe=lambda *_: None)
        assert list(channel._observers) == [4]
