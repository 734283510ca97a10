"""Actions of a role as a rank of a pipe, logged before and after each call.

The events come in pairs: ``pipe-send`` and ``pipe-sent``, ``pipe-receive`` and ``pipe-got``,
``pipe-close`` and ``pipe-closed``, ``forge`` and ``forged``, ``blocks-send`` and ``blocks-sent``,
``blocks-receive`` and ``blocks-got``. The second of each pair has the outcome, its error's text,
and the seconds ``s``. ``buffered`` has the number of bytes that a pipe holds, ``burst`` the memory
that a run of sends took.
"""

from __future__ import annotations

import gc
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from killpoint import scenario as script
from killpoint.runner.driver import Driver
from killpoint.runner.network.group_rendezvous import accepted
from killpoint.runner.observe import secret_scan
from killpoint.runner.points.thread_points import ThreadPoints
from killpoint.runner.processes.target_agent import TargetAgent
from killpoint.runner.protocol import Order
from killpoint.runner.second_threads import SecondThreads
from killpoint.systems.pipe import payload as payload
from killpoint.targets.protocol import (
    ForgesBlocks,
    ForgesMetadata,
    HasBlocks,
    HasPipe,
    HasPoints,
    KeepsSecrets,
    UnsupportedByTarget,
)
from killpoint.targets.shapes import PipeShape

if TYPE_CHECKING:
    from killpoint.runner.role import Role

_MUCH = 64 << 20
"""Bytes of address space from which on the growth by a receive is logged."""


class PipeDriver(Driver):
    """The pipe's half of a role; the role's ``end`` is its end of the pipe."""

    def __init__(self, role: Role, folder: Path) -> None:
        self._role = role
        self._timed = role.timed
        self._folder = folder
        self._thread_points: ThreadPoints | None = None
        self._shape = PipeShape()
        self._beside = SecondThreads()

    def table(self) -> dict[type, Callable[[Order, Any], str]]:
        """Return the method for each step."""
        return {
            script.PipeOpen: self._open,
            script.PipeSend: self._send,
            script.PipeReceive: self._receive,
            script.PipeMeet: self._meet,
            script.PipeDrain: self._drain,
            script.PipeForge: self._forge,
            script.PipeClose: self._close,
            script.BlocksSend: self._blocks_send,
            script.BlocksReceive: self._blocks_receive,
            script.BlocksForge: self._blocks_forge,
        }

    def come(self) -> None:
        """Make lines of the target's own threads points."""
        if isinstance(self._role.target, HasPoints):
            agent = TargetAgent(self._role.name, self._folder, side=True)
            self._thread_points = ThreadPoints(agent, self._role.target.is_own_code)

    def _target(self) -> HasPipe:
        target = self._role.target
        if not isinstance(target, HasPipe):
            raise UnsupportedByTarget("no pipe")
        return target

    def _blocks(self) -> HasBlocks:
        target = self._role.target
        if not isinstance(target, HasBlocks):
            raise UnsupportedByTarget("no blocks over its pipe")
        return target

    def look(self, complaints: Path) -> None:
        """Look for the end's secrets where others could see them; they enter no log."""
        target, end = self._role.target, self._role.end
        if end is None:
            return
        if not isinstance(target, KeepsSecrets):
            raise UnsupportedByTarget("no secret in a pipe's ends")
        secrets = target.pipe_secrets(end)
        places = {
            "its end's repr": repr(end).encode(),
            "its end's text": str(end).encode(),
            **secret_scan.own_places(complaints),
        }
        self._log("secrets", count=len(secrets), shown=secret_scan.shown(secrets, places))

    # -- its life -----------------------------------------------------------------------------

    def _open(self, order: Order, step: script.PipeOpen) -> str:
        told, target = accepted(order.data), self._target()
        self._shape = told.pipe or self._shape
        if self._thread_points is not None:
            self._thread_points.watch()
        with self._role.guard.during("pipe-open", None):
            self._role.end = target.pipe_make(
                order.rank, self._shape, told.host, told.port, told.secret, step.timeout
            )
        return "ok"

    def _close(self, _order: Order, step: script.PipeClose) -> str:
        outcome = "ok" if self._role.end is None else self._closed(step)
        gc.collect()
        return "ok" if outcome == "ok" else "stopped"

    def _closed(self, step: script.PipeClose) -> str:
        end, self._role.end = self._role.end, None
        if self._thread_points is not None:
            self._thread_points.end()
        self._log("pipe-close", timeout=step.timeout)
        outcome, error, seconds = self._timed(
            "pipe-close", lambda: self._target().pipe_close(end, step.timeout)
        )
        self._log("pipe-closed", outcome=outcome, error=error, s=seconds)
        if outcome == "injected":
            self._role.end = end  # closed or not: its holder closes it again
        return outcome

    # -- tensors ------------------------------------------------------------------------------

    def _send(self, order: Order, step: script.PipeSend) -> str:
        built = self._built(step, order.first)
        if not step.same and not step.beside:
            return self._sends(step, built)
        ready = list(built)
        if step.beside:
            return self._maybe_beside(True, lambda: self._sends(step, iter(ready)))
        payload.forget_peak()
        before = payload.peaks()
        outcome = self._sends(step, iter(ready))
        self._log("burst", before=before["rss"], peak=payload.peaks()["peak"])
        return outcome

    def _built(
        self, step: script.PipeSend, first: int
    ) -> Iterator[tuple[int, script.Tensor, Any, dict[str, Any]]]:
        """Yield each tensor with its number and its description for the log."""
        seq = first
        for tensor in step.tensors:
            built, known = None, dict[str, Any]()
            for turn in range(tensor.repeat):
                if not (step.same and turn):
                    built = payload.build(tensor, self._role.seed, seq, self._shape.device)
                    known = payload.about(built)
                yield seq, tensor, built, known
                seq += 1

    def _sends(
        self,
        step: script.PipeSend,
        ready: Iterator[tuple[int, script.Tensor, Any, dict[str, Any]]],
    ) -> str:
        for seq, tensor, built, known in ready:
            self._log("pipe-send", seq=seq, form=tensor.form, timeout=step.timeout, **known)
            outcome, error, seconds = self._call(
                "pipe-send",
                lambda end, built=built: self._target().pipe_send(end, built, step.timeout),
            )
            self._log("pipe-sent", seq=seq, outcome=outcome, error=error, s=seconds)
            if step.mutate and outcome == "ok" and payload.overwrite(built):
                self._log("overwritten", seq=seq, digest=payload.digest(built))
            if outcome != "ok" and not step.keep_on:
                return "stopped"
        return "ok"

    def _receive(self, _order: Order, step: script.PipeReceive) -> str:
        return self._maybe_beside(step.beside, lambda: self._receives(step))

    def _receives(self, step: script.PipeReceive) -> str:
        for _ in range(step.count):
            self._log("pipe-receive", timeout=step.timeout)
            got: list[Any] = []
            before = payload.peaks()["space"]
            outcome, error, seconds = self._call(
                "pipe-receive",
                lambda end, got=got: got.append(self._target().pipe_recv(end, step.timeout)),
            )
            known = payload.about(got[0]) if got else {}
            if (grew := payload.peaks()["space"] - before) > _MUCH:
                known["grew"] = grew
            self._log("pipe-got", outcome=outcome, error=error, s=seconds, **known)
            if outcome != "ok" and not step.keep_on:
                return "stopped"
        return "ok"

    def _drain(self, _order: Order, step: script.PipeDrain) -> str:
        end, began = self._role.end, time.monotonic()
        if end is None:
            return "ok"
        left = self._target().pipe_buffered(end)
        while left and time.monotonic() - began < step.within:
            select.select([], [], [], 0.005)
            left = self._target().pipe_buffered(end)
        self._log("buffered", bytes=left, s=round(time.monotonic() - began, 6))
        return "ok"

    def _forge(self, _order: Order, step: script.PipeForge) -> str:
        target = self._role.target
        if not isinstance(target, ForgesMetadata):
            raise UnsupportedByTarget("its wire cannot be made to lie")
        self._log("forge", lie=step.lie)
        outcome, error, seconds = self._call(
            "pipe-send", lambda end: target.pipe_forge(end, step.lie)
        )
        self._log("forged", lie=step.lie, outcome=outcome, error=error, s=seconds)
        return "ok" if outcome == "ok" else "stopped"

    # -- blocks -------------------------------------------------------------------------------

    def _blocks_send(self, order: Order, step: script.BlocksSend) -> str:
        whole = script.PipeSend(step.role, step.blocks)
        built = [each for _, _, each, _ in self._built(whole, order.first)]
        seq = order.first
        return self._maybe_beside(step.beside, lambda: self._sends_blocks(step, seq, built))

    def _sends_blocks(self, step: script.BlocksSend, seq: int, built: list[Any]) -> str:
        digests = [payload.digest(each) for each in built]
        named = {"request": step.request, "seq": seq}
        self._log("blocks-send", **named, digests=digests, lease=step.lease)
        outcome, error, seconds = self._call(
            "pipe-send",
            lambda end: self._blocks().blocks_send(end, step.request, built, step.lease),
        )
        about = {"outcome": outcome, "error": error, "s": seconds}
        self._log("blocks-sent", **named, **about)
        for each in built:
            payload.overwrite(each)
        return "ok" if outcome == "ok" else "stopped"

    def _blocks_receive(self, _order: Order, step: script.BlocksReceive) -> str:
        return self._maybe_beside(step.beside, lambda: self._receives_blocks(step))

    def _receives_blocks(self, step: script.BlocksReceive) -> str:
        self._log("blocks-receive", request=step.request, timeout=step.timeout)
        got: list[Any] = []
        outcome, error, seconds = self._call(
            "pipe-receive",
            lambda end: got.extend(self._blocks().blocks_recv(end, step.request, step.timeout)),
        )
        about = {"outcome": outcome, "error": error, "s": seconds}
        digests = [payload.digest(each) for each in got]
        self._log("blocks-got", request=step.request, **about, digests=digests)
        return "ok" if outcome == "ok" else "stopped"

    def _blocks_forge(self, _order: Order, step: script.BlocksForge) -> str:
        target = self._role.target
        if not isinstance(target, ForgesBlocks):
            raise UnsupportedByTarget("its wire cannot be made to harm blocks")
        if self._role.end is None:
            return "no-pipe"
        target.blocks_forge(self._role.end, step.how)
        self._log("blocks-forge", how=step.how)
        return "ok"

    # -- how ----------------------------------------------------------------------------------

    def _call(self, verb: str, act: Callable[[Any], object]) -> tuple[str, str, float]:
        end = self._role.end
        if end is None:
            return "no-pipe", "this role has no end: its making failed, or it is closed", 0.0
        if self._thread_points is not None:
            self._thread_points.count()
        return self._timed(verb, lambda: act(end))

    def _maybe_beside(self, beside: bool, act: Callable[[], str]) -> str:
        return self._beside.begin(act) if beside else act()

    def _meet(self, _order: Order, _step: script.PipeMeet) -> str:
        return self._beside.rejoin()

    def _log(self, kind: str, **data: object) -> None:
        self._role.log.write(kind, **data)


make = PipeDriver
