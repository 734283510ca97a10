"""Futures are resolved one after the other (W8)."""

from types import SimpleNamespace
from typing import Any

from refengine.executor import (
    PoolClosed,
)
from refengine.executor.rpc import OrderedReplies, PendingCall, new_future


class TestOrderedReplies:
    def pending(self, number: int) -> PendingCall:
        return PendingCall(number, "work", (0,), lambda: None, None, list, new_future())

    def test_a_future_whose_waiter_gave_it_a_value_keeps_it(self):
        made = OrderedReplies(lambda *_: [], lambda _: None)
        assert made.oldest() is None
        one, two = self.pending(1), self.pending(2)
        made.pending.extend([one, two])
        assert made.oldest() is one.future
        one.future.set_result("mine")
        made.end(PoolClosed)
        assert one.future.result() == "mine"
        assert isinstance(two.future.exception(), PoolClosed)
        assert not made.pending

    def test_its_thread_is_made_once_and_keeps_nobody(self):
        ran: list[int] = []
        made = OrderedReplies(lambda number, *_: ran.append(number) or [number], lambda _: None)
        calls = [self.pending(n) for n in (1, 2, 3)]
        for one in calls:
            made.add(one)
        assert [one.future.result(5) for one in calls] == [[1], [2], [3]]
        assert ran == [1, 2, 3]
        (thread,) = made._thread._attempts
        assert (thread.daemon, thread.name) == (True, "pool replies")
        made.end(PoolClosed)
        assert not thread.is_alive()
        made.end(PoolClosed)

    def test_at_the_end_its_thread_has_a_moment(self):
        made: Any = OrderedReplies(lambda *_: [1], lambda _: None)
        joined: list[float] = []
        made._thread._runner["thread"] = SimpleNamespace(join=joined.append)
        made.end(PoolClosed)
        assert [0 < seconds < 2 for seconds in joined] == [True]

    def test_the_way_is_free_before_the_waiter_wakes(self):
        seen: list[int] = []
        made = OrderedReplies(lambda *_: [1], lambda _: None)
        for combine in (list, lambda _: 1 / 0):
            one = PendingCall(1, "work", (0,), lambda: None, None, combine, new_future())
            one.future.add_done_callback(lambda _: seen.append(len(made.pending)))
            made.add(one)
            one.future.exception(5)
        made.end(PoolClosed)
        assert seen == [0, 0]
