"""Actions of the executor of a worker pool, logged before and after each call.

The events come in pairs: ``pool-start`` and ``pool-started``, ``call`` and ``call-done``,
``submit`` and ``submitted``, ``result`` and ``result-done``, ``health`` and ``health-done``,
``execute`` and ``executed``, ``pool-stop`` and ``pool-stopped``. The second of each pair has the
outcome, its error's text, and the seconds ``s``; after each of them comes ``pool-state``, empty
where the target names no states. All events of a call have its number ``n``.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, cast

import msgspec

from killpoint import scenario as script
from killpoint.runner.driver import Driver
from killpoint.runner.observe import open_fds
from killpoint.runner.processes.target_agent import DEVICE, EXIT_FAULT, EXITS, PLAY, TargetAgent
from killpoint.runner.protocol import Arm, Closed, Order
from killpoint.systems.pool import payload as payload
from killpoint.systems.pool.payload import Reply, Request, Scheduled
from killpoint.targets.protocol import CombinesTransfers, HasPool, UnsupportedByTarget
from killpoint.targets.shapes import PoolShape

if TYPE_CHECKING:
    from killpoint.runner.role import Role

WORKER = "killpoint.systems.pool.worker_class:PoolWorker"
_TEXT = 8000
"""Characters of an error's text that are kept, enough for a worker's own traceback."""


class PoolDriver(Driver):
    """The pool's half of a role; the role's ``end`` is its pool."""

    def __init__(self, role: Role, folder: Path) -> None:
        self._role = role
        self._timed = role.timed
        self._folder = folder
        self._agent: TargetAgent | None = None
        self.pid = 0
        self._calls = 0
        self._futures: dict[int, Any] = {}
        self._made: dict[int, Any] = {}

    def table(self) -> dict[type, Callable[[Order, Any], str]]:
        """Return the method for each step."""
        return {
            script.PoolStart: self._start,
            script.NextPool: self._start,
            script.Call: self._call,
            script.Submit: self._submit,
            script.Results: self._results,
            script.Health: self._health,
            script.Execute: self._execute,
            script.PoolStop: self._stop,
        }

    def come(self) -> None:
        """Make the phases of this process points, and pass the play to its workers."""
        os.environ[PLAY] = str(self._folder)
        # A spawned worker would import the zygote again, as its spawner's main module.
        sys.modules["__main__"] = ModuleType("__main__")
        self.pid = os.getpid()
        self._agent = TargetAgent(self._role.name, self._folder, side=True)
        payload.take_stand(self)
        signal.signal(EXITS, self._exit)

    def _exit(self, _number: int, _frame: FrameType | None) -> None:
        if os.getpid() == self.pid:
            self._log("exiting", how="os._exit")
            os._exit(EXIT_FAULT)

    def interrupted(self) -> None:
        """Handle Ctrl-C as a whole program does: stop the pool, and end."""
        self._log("interrupted")
        with contextlib.suppress(Closed):  # a point may have been on its way to us
            while (packet := self._role.channel.take()) is not None:
                if isinstance(packet, Arm):
                    self._role.guard.arm(packet)
        self._shut_down()

    def at(self, phase: str, call: int) -> None:
        """Stand at a phase, in the thread that reaches it, if the runner waits there."""
        if self._agent is None:
            return
        main = threading.current_thread() is threading.main_thread()
        self._role.log.write("phase", name=phase, call=call, **({} if main else {"thread": True}))
        arm = self._agent.due("work", phase)
        if arm is not None:
            self._agent.meet(arm, phase)

    # -- what it is told --------------------------------------------------------------------

    def _target(self) -> HasPool:
        target = self._role.target
        if not isinstance(target, HasPool):
            raise UnsupportedByTarget("no worker pool")
        return target

    def _start(self, order: Order, step: script.PoolStart | script.NextPool) -> str:
        target = self._target()
        shape = msgspec.json.decode(order.data, type=PoolShape)
        self._role.end = None
        self._futures.clear()
        self._made.clear()
        gc.collect()
        os.environ[DEVICE] = shape.device
        about = {"workers": shape.workers, "start": shape.start, "device": shape.device}
        about |= {"output_rank": shape.output_rank} if shape.transfers else {}
        self._log("pool-start", **about, timeout=step.timeout)

        def start() -> None:
            self._role.end = target.pool_start(shape, WORKER, step.timeout)
            target.pool_on_failure(self._role.end, self._failed)

        outcome, error, seconds = self._timed_in_full("pool-start", start)
        pids = target.pool_pids(self._role.end) if outcome == "ok" else []
        self._log("pool-started", outcome=outcome, error=error, s=seconds, pids=pids)
        self._log("interpreters-ends", ends=open_fds.interpreters_own())
        self._tell_state()
        return "ok" if outcome == "ok" else "stopped"

    def _call(self, _order: Order, step: script.Call) -> str:
        for _ in range(step.times):
            number = self._number(step, "call", timeout=step.timeout)
            got: list[Any] = []
            method, args = _asked(step, number)
            outcome, error, seconds = self._on_end(
                "call",
                lambda end, method=method, args=args, got=got: got.append(
                    self._target().pool_call(end, method, args, step.timeout, step.rank)
                ),
            )
            about = {"outcome": outcome, "error": error, "s": seconds}
            self._log("call-done", n=number, **about, replies=replies(got))
            self._tell_state()
            if outcome != "ok" and not step.keep_on:
                return "stopped"
        return "ok"

    def _submit(self, _order: Order, step: script.Submit) -> str:
        for _ in range(step.times):
            number = self._number(step, "submit")
            made: list[Any] = []
            method, args = _asked(step, number)
            outcome, error, seconds = self._on_end(
                "submit",
                lambda end, method=method, args=args, made=made: made.append(
                    self._target().pool_submit(end, method, args, step.rank)
                ),
            )
            self._log("submitted", n=number, outcome=outcome, error=error, s=seconds)
            self._tell_state()
            if outcome != "ok":
                return "stopped"
            self._futures[number] = self._made[number] = made[0]
        return "ok"

    def _results(self, _order: Order, step: script.Results) -> str:
        waiting = sorted(self._futures, reverse=step.newest_first)
        for number in waiting[: step.count]:
            self._log("result", n=number, timeout=step.timeout)
            future = self._futures.pop(number)
            got: list[Any] = []
            outcome, error, seconds = self._on_end(
                "result",
                lambda end, future=future, got=got: got.append(
                    self._target().pool_result(end, future, step.timeout)
                ),
            )
            about = {"outcome": outcome, "error": error, "s": seconds}
            self._log("result-done", n=number, **about, replies=replies(got), done=self._done())
            self._tell_state()
            if outcome != "ok" and not step.keep_on:
                return "stopped"
        return "ok"

    def _done(self) -> list[int]:
        end = self._role.end
        return [n for n, each in self._made.items() if self._target().pool_done(end, each)]

    def _health(self, _order: Order, step: script.Health) -> str:
        self._log("health", timeout=step.timeout)
        outcome, error, seconds = self._on_end(
            "health", lambda end: self._target().pool_health(end, step.timeout)
        )
        self._log("health-done", outcome=outcome, error=error, s=seconds)
        self._tell_state()
        return "ok" if outcome == "ok" else "stopped"

    def _execute(self, order: Order, step: script.Execute) -> str:
        target = self._target()
        if not isinstance(target, CombinesTransfers):
            raise UnsupportedByTarget("no finished transfers of a worker pool")
        number, self._calls = self._calls, self._calls + 1
        silent = -1 if step.output else msgspec.json.decode(order.data, type=PoolShape).output_rank
        named = {"sent": step.sent, "received": step.received}
        self._log("execute", n=number, output=step.output, **named)
        got: list[Any] = []
        outcome, error, seconds = self._on_end(
            "call",
            lambda end: got.append(
                target.pool_execute(end, Scheduled(step.sent, step.received, silent))
            ),
        )
        told: dict[str, object] = {}
        if got and got[0] is not None:
            told["sent"] = sorted(got[0].finished_sending)
            told["received"] = sorted(got[0].finished_receiving)
        self._log("executed", n=number, outcome=outcome, error=error, s=seconds, **told)
        self._tell_state()
        return "ok" if outcome == "ok" else "stopped"

    def _stop(self, _order: Order, _step: script.PoolStop) -> str:
        return self._shut_down()

    def _shut_down(self) -> str:
        if self._role.end is None:
            return "ok"
        self._log("pool-stop")
        outcome, error, seconds = self._on_end("stop", lambda end: self._target().pool_stop(end))
        self._log("pool-stopped", outcome=outcome, error=error, s=seconds)
        self._tell_state()
        return "ok" if outcome == "ok" else "stopped"

    # -- how ----------------------------------------------------------------------------------

    def _number(self, step: script.Call | script.Submit, kind: str, **more: object) -> int:
        number, self._calls = self._calls, self._calls + 1
        expected = payload.digest(payload.body(number, step.size))
        self._log(kind, n=number, method=step.method, rank=step.rank, digest=expected, **more)
        return number

    def _on_end(self, verb: str, act: Callable[[Any], object]) -> tuple[str, str, float]:
        end = self._role.end
        if end is None:
            return "no-pool", "there is no pool: its start failed", 0.0
        return self._timed_in_full(verb, lambda: act(end))

    def _timed_in_full(self, verb: str, act: Callable[[], object]) -> tuple[str, str, float]:
        """Time a call as the role does, with the full text of an error."""
        text = ""

        def acted() -> None:
            nonlocal text
            try:
                act()
            except Exception as error:
                text = f"{type(error).__name__}: {error}"[:_TEXT]
                raise

        outcome, error, seconds = self._timed(verb, acted)
        return outcome, text or error, seconds

    def _failed(self) -> None:
        self._log("failure-callback")

    def _tell_state(self) -> None:
        if self._role.end is not None:  # an empty word says that the target has none
            self._log("pool-state", state=self._target().pool_state(self._role.end))

    def _log(self, kind: str, **data: object) -> None:
        self._role.log.write(kind, **data)


def _asked(
    step: script.Call | script.Submit, number: int
) -> tuple[str | Callable[..., Any], tuple[Any, ...]]:
    """Return what the workers run, a name or a function, and its arguments."""
    method = payload.function_of(number) if step.method == "function" else step.method
    return method, (Request(number), step.size)


def replies(got: list[Any]) -> list[list[object]]:
    """Return the rank, call and digest of each reply in a call's results, lists or single."""
    found: list[list[object]] = []
    for value in got:
        for each in cast("list[object]", value) if isinstance(value, list | tuple) else [value]:
            if isinstance(each, Reply):
                found.append([each.rank, each.call, payload.digest(each.data)])
            else:
                found.append([-1, -1, type(each).__name__])
    return found


make = PoolDriver
