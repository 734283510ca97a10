"""Actions of the front end of an engine, logged before and after each call.

The events come in pairs: ``engine-start`` and ``engine-started``, ``engine-stop`` and
``engine-stopped``; the second of each has the outcome, its error's text, and the seconds ``s``.
``load`` and ``burst`` tell that requests begin to come, ``whole`` whether the engine was again what
it had been, ``calm`` whether all requests had ended, ``alone`` what the model gives by itself: its
finish, and the digests of its first none, one, two… tokens. What happens under load is told in
:mod:`killpoint.systems.engine.request_thread`.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from killpoint import scenario as script
from killpoint.runner.driver import Driver
from killpoint.runner.protocol import Order, Parts
from killpoint.systems.engine.burst_thread import BurstThread
from killpoint.systems.engine.load import EngineRequest, prefixes
from killpoint.systems.engine.load_thread import LoadThread
from killpoint.systems.engine.request_thread import RequestThread
from killpoint.targets.engine_protocol import EnginePiece, EngineShape, HasEngine
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
        self._requests: RequestThread | None = None

    def table(self) -> dict[type, Callable[[Order, Any], str]]:
        """Return the method for each step."""
        return {
            script.EngineStart: self._start,
            script.Load: self._load,
            script.Burst: self._burst,
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
        self._requests = LoadThread(
            self._target(),
            self._role.end,
            self._role.log,
            step,
            self._shape,
            self._role.seed,
            word=self._word,
            tell=self._tell,
        )
        self._log("load", rate=step.rate, together=step.together)
        self._requests.start()
        return "ok"

    def _burst(self, _order: Order, step: script.Burst) -> str:
        if self._role.end is None:
            return "no-engine"
        thread, begins = self._requests, False
        if not isinstance(thread, BurstThread):
            begins = True
            thread = self._requests = BurstThread(
                self._target(),
                self._role.end,
                self._role.log,
                self._shape,
                self._role.seed,
                look=step.look,
                word=self._word,
                tell=self._tell,
            )
        self._log("asked-together", clients=len(step.clients))
        thread.begin(step)
        if begins:
            thread.start()
        return self._well()

    def _tell(self, parts: dict[str, int]) -> None:
        self._role.channel.put(Parts(self._role.name, parts))

    def _serve(self, _order: Order, step: script.ContinueLoad) -> str:
        if self._requests is not None:
            self._requests.serve(step.seconds, step.coming)
        return self._well()

    def _recover(self, _order: Order, step: script.WaitHealthy) -> str:
        if self._requests is not None:
            began = time.monotonic()
            whole = self._requests.recover(step.within)
            self._log("whole", yes=whole, s=round(time.monotonic() - began, 6))
            if step.vital and not whole:
                return "not-whole"
        return self._well()

    def _calm(self, _order: Order, step: script.WaitIdle) -> str:
        if self._requests is not None:
            self._log("calm", yes=self._requests.calm(step.within, step.still))
        return self._well()

    def _alone(self, _order: Order, _step: script.ReferenceAnswers) -> str:
        if self._requests is not None:
            self._requests.halt()
            for each, finish, tokens in self._answers(self._requests.known()):
                self._log("alone", key=each.key, finish=finish, prefixes=prefixes(tokens))
        return self._well()

    def _answers(
        self, known: Sequence[EngineRequest]
    ) -> Iterator[tuple[EngineRequest, str, list[int]]]:
        """Yield the finish and the tokens of each request; a prompt is computed once, at length."""
        most: dict[tuple[int, ...], int] = {}
        for each in known:
            most[each.prompt] = max(each.max_tokens, most.get(each.prompt, 0))
        pieces: dict[tuple[int, ...], EnginePiece] = {}
        for each in known:
            piece = pieces.get(each.prompt)
            if piece is None:
                piece = self._target().engine_alone(self._shape, each.prompt, most[each.prompt])
                pieces[each.prompt] = piece
            tokens = list(piece.tokens)[: each.max_tokens]
            finish = "length" if len(tokens) == each.max_tokens else piece.finish
            yield each, finish, tokens

    def _stop(self, _order: Order, _step: script.EngineStop) -> str:
        end, self._role.end = self._role.end, None
        if end is None:
            return "ok"
        if self._requests is not None:
            self._requests.halt()
        target = self._target()
        self._log("engine-stop")
        stop = partial(target.engine_stop, end)
        outcome, error, seconds = self._timed("engine-stop", stop)
        self._log("engine-stopped", outcome=outcome, error=error, s=seconds)
        if self._requests is not None:
            self._requests.drain(_TOLD_WITHIN)
        del end, stop
        gc.collect()
        return self._well() if outcome == "ok" else "stopped"

    def _well(self) -> str:
        """An order that the load's own thread could not go on with has failed, too."""
        if self._requests is not None and self._requests.broken is not None:
            broken, self._requests.broken = self._requests.broken, None
            raise broken
        return "ok"

    def _log(self, kind: str, **data: object) -> None:
        self._role.log.write(kind, **data)


make = EngineDriver
