"""A pool's inner half: started, failed, stopped. `Executor` is its face, `Asking` its voice."""

import contextlib
import os
import time

from ..end import countdown
from ..errors import AttachFailed, DeadlinePassed
from ..keeping import keep
from ..queue import MessageQueue
from .asking import LOST, Asking, Order
from .calls import Calls, Left
from .crew import Crew, Shape
from .errors import NotProgressing
from .lifecycle import Lifecycle, State
from .settings import PoolSettings, WorkerSpec
from .watch import Watch

_VERDICT = 1.5
_CLOSE = 0.2


class Pool:
    """Everything of a pool, without the object that its user holds."""

    def __init__(self, shape: Shape, spec: WorkerSpec, settings: PoolSettings) -> None:
        self.shape, self._spec, self.settings = shape, spec, settings
        self.lifecycle = Lifecycle()
        self.crew = Crew(shape)
        self.watch = Watch(self.crew, self.lifecycle, settings, self._wake, self._give_back)
        self.asking = Asking(self.lifecycle, self.watch, settings.in_flight)
        self._queues: list[MessageQueue] = []
        self._pid = os.getpid()

    def start(self) -> None:
        """Until every worker is READY and met; StartFailed, or TimeoutError."""
        left = countdown(self.settings.start_timeout, time.monotonic)
        self.crew.start(self._spec, self.settings)
        self.watch.start()
        self.watch.await_ready(left())
        self._check_start()
        try:
            self._meet(left)
        except (*LOST, AttachFailed, DeadlinePassed) as error:
            self.watch.decided.wait(0.0 if isinstance(error, DeadlinePassed) else _VERDICT)
            self._check_start()
            raise
        if not self.lifecycle.advance(State.READY):
            self._check_start()  # it ended in the last moment

    def _check_start(self) -> None:
        refusal = self.watch.refusal("the start")
        if refusal is not None:
            raise refusal
        if not self.watch.ready.is_set():
            late = [m.rank for m in self.crew.members if m.handle is None]
            who = f"worker {', '.join(map(str, late))} to be READY"
            raise DeadlinePassed(who, self.settings.start_timeout or 0)

    def _meet(self, left: Left) -> None:
        """Both sides in the same order: the queue of requests, then each one of replies."""
        members, queues = self.crew.members, self._queues
        sizes = self.settings.max_chunk_bytes, self.settings.max_chunks
        keep(queues, MessageQueue, len(members), None, None, *sizes)
        for member in members:
            keep(queues, MessageQueue.create_from_handle, member.handle, 0)
        requests, replies = queues[0], queues[1:]
        for member in members:
            member.link.say(requests.export_handle())
        for queue in (requests, *replies):
            self._check_start()
            queue.wait_until_ready(left())
        self.asking.calls = Calls(requests, replies)

    def check_health(self, timeout: float | None) -> None:
        """Every worker is there and gets on with its work, or an error says which does not."""
        page, members = self.crew.page, self.crew.members
        before = [page.done(member.rank) for member in members]
        try:
            self.asking.call(Order.given("check_health", timeout))
        except TimeoutError:
            for member in members:
                if page.done(member.rank) == before[member.rank]:
                    busy = page.busy_for(member.rank) or 0.0
                    raise NotProgressing(member.rank, member.pid, busy, timeout or 0) from None

    def stop(self) -> None:
        """End it all; idempotent, from any thread. A forked copy of it is nothing to end."""
        if os.getpid() == self._pid:
            self.watch.stop()

    def _wake(self) -> None:
        """The monitor's: nothing will be answered any more."""
        for queue in list(self._queues):
            queue.shutdown()
        self.asking.refuse_pending()

    def _give_back(self) -> None:
        """The monitor's: every worker is gone."""
        self.asking.end()
        for queue in list(self._queues):
            with contextlib.suppress(Exception):
                queue.close(_CLOSE)
