"""Actions of the front end of an engine, logged before and after each call.

The events come in pairs: ``engine-start`` and ``engine-started``, ``engine-stop`` and
``engine-stopped``; the second of each has the outcome, its error's text, and the seconds ``s``.
``load`` tells that requests begin to come, ``whole`` whether the engine was again what it had been,
``calm`` whether all requests had ended, ``alone`` what the model gives by itself: its finish, and
the digests of its first none, one, two… tokens. What happens under load is told in
:mod:`killpoint.systems.engine.load_thread`.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from killpoint import scenario as script
from killpoint.runner.driver import Driver
from killpoint.runner.protocol import Order, Parts
from killpoint.systems.engine.load import prefixes
from killpoint.systems.engine.load_thread import LoadThread
from killpoint.targets.engine_protocol import EngineShape, HasEngine
from killpoint.targets.protocol import UnsupportedByTarget

if TYPE_CHECKING:
    from killpoint.runner.role import Role

_TOLD_WITHIN = 2.0
"""Seconds after a stop within which open requests must end."""


class EngineDriver(Driver):
    """The engine's half of a role; the role's ``end`` is its engine."""

    def __init__(self, role: Role, _folder: Path) -> None:
        self._role = role
        self._timed = role.timed
        self._word = role.outcome_of
        self._shape = EngineShape()
        self._load_thread: LoadThread | None = None

    def table(self) -> dict[type, Callable[[Order, Any], str]]:
        """Return the method for each step."""
        return {
            script.EngineStart: self._start,
            script.Load: self._load,
            script.ContinueLoad: self._serve,
            script.WaitHealthy: self._recover,
            script.WaitIdle: self._calm,
            script.ReferenceAnswers: self._alone,
            script.EngineStop: self._stop,
        }

    def come(self) -> None:
        """Set a main module that spawned processes can import, which the zygote is not."""
        sys.modules["__main__"] = ModuleType("__main__")

    def _target(self) -> HasEngine:
        target = self._role.target
        if not isinstance(target, HasEngine):
            raise UnsupportedByTarget("no engine")
        return target

    def _start(self, order: Order, step: script.EngineStart) -> str:
        target = self._target()
        self._shape = msgspec.json.decode(order.data, type=EngineShape)
        self._log("engine-start", timeout=step.timeout, parts=self._shape.parts())

        def start() -> None:
            self._role.end = target.engine_start(self._shape, step.timeout)

        outcome, error, seconds = self._timed("engine-start", start)
        self._log("engine-started", outcome=outcome, error=error, s=seconds)
        if outcome == "ok":
            self._tell(target.engine_parts(self._role.end))
        return "ok" if outcome == "ok" else "stopped"

    def _load(self, _order: Order, step: script.Load) -> str:
        if self._role.end is None:
            return "no-engine"
        self._load_thread = LoadThread(
            self._target(),
            self._role.end,
            step,
            self._shape,
            self._role.seed,
            self._role.log,
            word=self._word,
            tell=self._tell,
        )
        self._log("load", rate=step.rate, together=step.together)
        self._load_thread.start()
        return "ok"

    def _tell(self, parts: dict[str, int]) -> None:
        self._role.channel.put(Parts(self._role.name, parts))

    def _serve(self, _order: Order, step: script.ContinueLoad) -> str:
        if self._load_thread is not None:
            self._load_thread.serve(step.seconds, step.coming)
        return self._well()

    def _recover(self, _order: Order, step: script.WaitHealthy) -> str:
        if self._load_thread is not None:
            began = time.monotonic()
            whole = self._load_thread.recover(step.within)
            self._log("whole", yes=whole, s=round(time.monotonic() - began, 6))
        return self._well()

    def _calm(self, _order: Order, step: script.WaitIdle) -> str:
        if self._load_thread is not None:
            self._log("calm", yes=self._load_thread.calm(step.within))
        return self._well()

    def _alone(self, _order: Order, _step: script.ReferenceAnswers) -> str:
        if self._load_thread is not None:
            self._load_thread.halt()
            for each in self._load_thread.known:
                piece = self._target().engine_alone(self._shape, each.prompt, each.max_tokens)
                told = prefixes(list(piece.tokens))
                self._log("alone", key=each.key, finish=piece.finish, prefixes=told)
        return self._well()

    def _stop(self, _order: Order, _step: script.EngineStop) -> str:
        end, self._role.end = self._role.end, None
        if end is None:
            return "ok"
        if self._load_thread is not None:
            self._load_thread.halt()
        target = self._target()
        self._log("engine-stop")
        stop = partial(target.engine_stop, end)
        outcome, error, seconds = self._timed("engine-stop", stop)
        self._log("engine-stopped", outcome=outcome, error=error, s=seconds)
        if self._load_thread is not None:
            self._load_thread.drain(_TOLD_WITHIN)
        del end, stop
        gc.collect()
        return self._well() if outcome == "ok" else "stopped"

    def _well(self) -> str:
        """An order that the load's own thread could not go on with has failed, too."""
        if self._load_thread is not None and self._load_thread.broken is not None:
            broken, self._load_thread.broken = self._load_thread.broken, None
            raise broken
        return "ok"

    def _log(self, kind: str, **data: object) -> None:
        self._role.log.write(kind, **data)


make = EngineDriver
