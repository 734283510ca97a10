"""A tape of a pool's events, spoken in sentences."""

from __future__ import annotations

import signal
from typing import Any

from synthetic import Tape

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pool.kill_matrix import Ending
from killpoint.targets.protocol import PoolShape
from killpoint.verdict import Violation


def pool_judged(
    id: str,
    tape: Tape,
    *,
    expects: Ending | None = None,
    grace: float = 0.5,
    ledger: Ledger | None = None,
) -> Finding:
    """What the judge of an invariant finds on a tape of two workers."""
    shape = PoolShape(grace=grace)
    scenario = Scenario(f"{id}/synthetic", [id], [], pool=shape, expects=expects)
    return CHECKERS[id](scenario, tape.history(), ledger or Ledger())


def pool_convicted(id: str, tape: Tape, **more: Any) -> Violation:
    """The one violation that the judge finds."""
    found = pool_judged(id, tape, **more).violations
    assert len(found) == 1, f"expected one violation, found {found}"
    return found[0]


class PoolTape(Tape):
    """Acts of an executor of two workers, and what is done to whom."""

    def __init__(self, workers: int = 2) -> None:
        super().__init__()
        self.workers = workers
        self._n = 0
        self._pids = 100

    # -- the executor -----------------------------------------------------------------------

    def starts(self, timeout: float | None = 10.0, *, here: bool = True) -> PoolTape:
        """It begins to start a pool, and its workers come."""
        self.tell("executor", "pool-start", workers=self.workers, start="default", timeout=timeout)
        self._pids += 100
        for rank in range(self.workers if here else 0):
            facts = {"rank": rank, "pid": self._pids + rank, "start": "zygote"}
            self.tell(f"worker-{rank}", "worker-here", **facts)
        return self

    def started(self, outcome: str = "ok", *, error: str = "", s: float = 0.1) -> PoolTape:
        """The start returned, or raised."""
        self.tell("executor", "pool-started", outcome=outcome, error=error, s=s)
        return self

    def ready(self) -> PoolTape:
        """A pool is there."""
        return self.starts().started()

    def calls(
        self,
        method: str = "echo",
        *,
        op: str = "call",
        timeout: float | None = 5.0,
        rank: int | None = None,
    ) -> PoolTape:
        """A call, or a submission, begins."""
        self._n += 1
        about = {"n": self._n, "method": method, "rank": rank, "timeout": timeout}
        self.tell("executor", op, **about)
        return self

    def done(
        self,
        outcome: str = "ok",
        *,
        s: float = 0.001,
        replies: list[list[int]] | None = None,
        error: str = "",
        n: int | None = None,
        op: str = "call",
        futures: list[int] | None = None,
    ) -> PoolTape:
        """The call came back, ``s`` after it began."""
        self.later(s * 1000)
        n = self._n if n is None else n
        if replies is None and outcome == "ok":
            replies = [[rank, n] for rank in range(self.workers)]
        given = [[*each, "d"] for each in replies or []]
        about = {"n": n, "outcome": outcome, "error": error, "s": s, "replies": given}
        kind = {"call": "call-done", "submit": "submitted", "result": "result-done"}[op]
        more = {"done": futures} if futures is not None else {}
        self.tell("executor", kind, **about, **more)
        return self

    def called(self, outcome: str = "ok", **how: Any) -> PoolTape:
        """A whole call."""
        call = {key: how.pop(key) for key in ("method", "timeout", "rank") if key in how}
        return self.calls(**call).done(outcome, **how)

    def submits(self) -> PoolTape:
        """A non-blocking call."""
        return self.calls(op="submit").done(op="submit", replies=[])

    def result(
        self,
        n: int,
        outcome: str = "ok",
        *,
        futures: list[int] | None = None,
        s: float = 0.001,
        timeout: float | None = 5.0,
    ) -> PoolTape:
        """A future's value is asked for."""
        self.tell("executor", "result", n=n, timeout=timeout)
        return self.done(outcome, n=n, op="result", futures=futures, s=s)

    def stops(self, outcome: str = "ok", *, s: float = 0.01, gone: bool = True) -> PoolTape:
        """A shutdown, after which the workers are gone."""
        self.tell("executor", "pool-stop").later(s * 1000)
        self.tell("executor", "pool-stopped", outcome=outcome, s=s)
        for rank in range(self.workers if gone else 0):
            if not self._is_gone(rank):
                self.gone(rank)
        return self

    def fires(self) -> PoolTape:
        """The failure callback is called."""
        self.tell("executor", "failure-callback")
        return self

    def seen(self, *states: str) -> PoolTape:
        """Its state, now and then."""
        for state in states:
            self.tell("executor", "pool-state", state=state)
        return self

    # -- the workers and the runner -------------------------------------------------------

    def gone(self, rank: int, **how: int) -> PoolTape:
        """A worker is seen to have ended, with a code or by a signal."""
        self.tell("director", "gone", target=f"worker-{rank}", pid=self._pids + rank, **how)
        return self

    def _is_gone(self, rank: int) -> bool:
        return any(e.kind == "gone" and e.number("pid") == self._pids + rank for e in self.events)

    def does(self, fault: str, role: str = "worker-0", *, ends: bool = True) -> PoolTape:
        """A fault, and what it does at once."""
        self.tell("director", "intent", fault=fault, target=role)
        self.tell("director", "fault", fault=fault, target=role)
        if not ends or fault not in ("kill", "exit", "sigterm", "sigint"):
            return self
        if role == "executor":
            number = {"kill": 9, "sigterm": signal.SIGTERM}.get(fault, 0)
            self.exits(role, code=0 if number else 3, number=number)
            return self
        return self.gone(int(role.split("-")[1]))

    def raises(self, role: str = "worker-0") -> PoolTape:
        """An exception is injected where a role stands."""
        self.tell(role, "phase", name="computing", call=self._n)
        self.does("raise", role)
        self.tell(role, "raised", how="injected", where="x.py:1 in f")
        return self

    def ends_shown(self, role: str, *ends: str, **told: dict[str, str]) -> PoolTape:
        """The pipe ends and sockets that a process has open, and the ``peers`` of the latter."""
        self.tell("director", "open-ends", target=role, ends=list(ends), **told)
        return self
