"""Errors of a pool of workers, as types that carry the facts."""

import signal as signals
from collections.abc import Callable

from ..errors import DeadlinePassed, PeerDied, RefengineError

Failure = Callable[[str], RefengineError]
"""Function that makes a fresh error for the operation that the failure ends."""


class WorkerDied(PeerDied):
    """A worker ended while the pool needed it (SPEC W3)."""

    def __init__(
        self,
        rank: int,
        pid: int,
        waiting_for: str,
        signal: int | None = None,
        status: int | None = None,
        exit_reason: str = "",
        node: int = 0,
    ) -> None:
        super().__init__(f"worker {rank}", pid, waiting_for, signal)
        self.rank, self.status, self.exit_reason = rank, status, exit_reason
        self.node = node
        """Node that the pid is of; 0: the one where the error is raised."""
        there = (node,) if node else ()
        self.facts = rank, pid, waiting_for, signal, status, exit_reason, *there
        how = f"left because of {exit_reason}" if exit_reason else how_it_ended(signal, status)
        place = f"pid {pid} on node {node}" if node else f"pid {pid}"
        self.args = (
            f"worker {rank} ({place}) {how}; noticed while waiting for {waiting_for}. "
            "The pool has ended with it: find out why, then start a new one",
        )


class StartFailed(RefengineError):
    """A worker did not become READY (SPEC W7): `reason` is its own traceback, if it had one."""

    def __init__(self, rank: int, pid: int, reason: str) -> None:
        self.rank, self.pid, self.reason = rank, pid, reason
        super().__init__(f"worker {rank} (pid {pid}) did not start: {reason}", rank, pid, reason)


class ZygoteFailed(RefengineError):
    """The process that workers are forked from could not do its work."""

    def __init__(self, pid: int, reason: str) -> None:
        self.pid, self.reason = pid, reason
        text = f"the zygote (pid {pid}) cannot fork workers: {reason}. Another start method may do"
        super().__init__(text, pid, reason)


class CallFailed(RefengineError):
    """The method raised, or its result could not be sent; the pool goes on (SPEC W6)."""

    def __init__(self, rank: int, method: str, reason: str, traceback: str = "") -> None:
        self.rank, self.method, self.reason, self.traceback = rank, method, reason, traceback
        text = f"{method} failed at worker {rank}: {reason}"
        super().__init__(f"{text}\n{traceback}" if traceback else text, *self._facts())

    def _facts(self) -> tuple[object, ...]:
        return self.rank, self.method, self.reason, self.traceback


class CallTimedOut(DeadlinePassed):
    """No reply within the deadline; one that comes later is dropped (SPEC W2, W5).

    `ranks`: the workers that have not answered. Empty if that is not known: replies to earlier
    calls, which are taken first, were still being waited for.
    """

    def __init__(self, ranks: list[int], method: str, seconds: float) -> None:
        self.ranks, self.method = ranks, method
        super().__init__(f"{_workers(ranks)} to answer {method}", seconds)
        self.facts = ranks, method, seconds
        self.args = (
            f"waited {seconds:g} s for {self.waiting_for}. It may still run there; its reply will "
            "be dropped",
        )


class NotProgressing(CallTimedOut):
    """A worker is alive, and has not finished the call that it is in (SPEC E4)."""

    def __init__(self, rank: int, pid: int, busy_for: float, seconds: float) -> None:
        super().__init__([rank], "check_health", seconds)
        self.rank, self.pid, self.busy_for = rank, pid, busy_for
        self.facts = rank, pid, busy_for, seconds
        self.args = (
            f"worker {rank} (pid {pid}) is alive, but has been in one call for {busy_for:.1f} s; "
            "a stack dump from outside tells where",
        )


class PoolClosed(RefengineError):
    """The pool was shut down (SPEC W8)."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        super().__init__(f"{operation}: the pool is shut down; start a new one", operation)


def how_it_ended(signal: int | None, status: int | None) -> str:
    """Return in words how a process ended, as far as is known."""
    if signal is not None:
        return f"was killed by {signal_name(signal)}"
    return "ended" if status is None else f"exited with status {status}"


def signal_name(number: int) -> str:
    """Return the name of a signal: SIGKILL for 9."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _workers(ranks: list[int]) -> str:
    if not ranks:
        return "workers"
    return ("worker " if len(ranks) == 1 else "workers ") + ", ".join(map(str, ranks))
