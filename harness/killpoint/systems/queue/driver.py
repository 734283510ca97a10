"""Steps of a queue and of the ring below it, as one role executes them."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from killpoint import scenario as script
from killpoint.runner import payload
from killpoint.runner.driver import AdapterFault, Driver, brief, without_evidence
from killpoint.runner.observe import secret_scan
from killpoint.runner.protocol import Order
from killpoint.runner.stream import Stream
from killpoint.targets.protocol import HasRing, HasWire, UnsupportedByTarget

if TYPE_CHECKING:
    from killpoint.runner.role import Role

_LENGTH = bytes(8)
"""Prefix of a slot that is filled at the level of the ring: the length of its body."""


class QueueDriver(Driver):
    """One end of a queue: the role's ``end`` is the writer's, or a reader's."""

    def __init__(self, role: Role, _folder: Path) -> None:
        self._role = role
        self._shown = b""
        self._stream = Stream(role, role.outcome_of)

    def table(self) -> dict[type, Callable[[Order, Any], str]]:
        """Return the method that executes each step."""
        return {
            script.Make: self._make,
            script.Attach: self._attach,
            script.Ready: self._ready,
            script.Send: self._send,
            script.Receive: self._receive,
            script.RingWrite: self._ring_write,
            script.RingRead: self._ring_read,
            script.RingAttach: self._ring_attach,
            script.ForkCopy: self._fork_copy,
            script.VerifyHeld: self._recheck,
            script.Close: self._close,
            script.Drop: self._drop,
        }

    def _make(self, order: Order, _step: script.Make) -> str:
        shape = script.parse_shape(order.data)
        with self._role.guard.during("make", None):
            self._role.end = self._role.target.make(shape)
        try:
            handle = self._role.target.handle(self._role.end)
            self._role.handle = pickle.dumps(handle)
        except Exception as error:
            raise AdapterFault(f"the handle cannot be pickled: {brief(error)}") from error
        if shape.remote and isinstance(self._role.target, HasWire):
            self._role.addresses = self._role.target.addresses(handle)
        if shape.silence is not None and "silence" in self._role.target.capabilities:
            self._role.log.write("silence", seconds=shape.silence)
        self._shown = self._role.handle
        return "ok"

    def _attach(self, order: Order, _step: script.Attach) -> str:
        self._shown = order.data
        handle = pickle.loads(order.data)
        if order.routes is not None:
            if not order.routes or not isinstance(self._role.target, HasWire):
                raise UnsupportedByTarget("its handle shows no address to lead through a relay")
            handle = self._role.target.rerouted(handle, order.routes)
        with self._role.guard.during("attach", None):
            self._role.end = self._role.target.attach(handle, order.rank)
        return "ok"

    def _ready(self, _order: Order, step: script.Ready) -> str:
        with self._role.guard.during("ready", self._role.end):
            self._role.target.ready(self._role.end, step.timeout)
        return "ok"

    def _close(self, _order: Order, _step: script.Close) -> str:
        self._role.give_up("close", self._role.target.close)
        return "ok"

    def _drop(self, _order: Order, step: script.Drop) -> str:
        if step.cycle:
            knot: list[Any] = [self._role.end]
            knot.append(knot)
            del knot
        self._role.end = None
        gc.collect()
        return "ok"

    # -- messages ---------------------------------------------------------------------------

    def _send(self, order: Order, step: script.Send) -> str:
        if step.pace is not None:
            return self._stream.send(step, order.first)
        todo: list[tuple[int, script.Message, int]] = []
        for message in step.messages:
            for turn in range(message.repeat):
                size = max(0, message.size + turn * message.step)
                todo.append((order.first + len(todo), message, size))
        built = {item[0]: self._build(*item) for item in todo} if step.burst else {}
        return self._in_threads(
            step.threads,
            todo,
            lambda item: self._send_one(step, built.get(item[0]) or self._build(*item), *item),
        )

    def _build(self, seq: int, message: script.Message, size: int) -> tuple[Any, str]:
        return payload.build_identified(message, self._role.seed, seq, size)

    def _send_one(
        self,
        step: script.Send,
        built: tuple[Any, str],
        seq: int,
        message: script.Message,
        size: int,
    ) -> bool:
        if self._role.pause:
            select.select([], [], [], self._role.pause)
        obj, whole = built
        known = whole != message.kind
        self._role.log.write(
            "send",
            seq=seq,
            form=message.kind,
            size=size,
            digest=whole,
            timeout=step.timeout,
        )
        outcome, error, seconds = self._role.timed(
            "send", lambda: self._role.target.send(self._role.end, obj, step.timeout)
        )
        self._role.log.write("sent", seq=seq, outcome=outcome, error=error, s=seconds)
        if step.mutate and outcome == "ok" and known and payload.mutate(obj):
            self._role.log.write("mutated", seq=seq, digest=payload.digest(obj))
        return outcome == "ok" or step.keep_on

    def _receive(self, _order: Order, step: script.Receive) -> str:
        if step.pace is not None:
            return self._stream.receive(step)
        todo = list(range(step.count))
        return self._in_threads(step.threads, todo, lambda _: self._receive_one(step))

    def _receive_one(self, step: script.Receive) -> bool:
        if self._role.pause:
            select.select([], [], [], self._role.pause)
        self._role.log.write("receive", timeout=step.timeout)
        got: list[Any] = []
        outcome, error, seconds = self._role.timed(
            "receive", lambda: got.append(self._role.target.receive(self._role.end, step.timeout))
        )
        if not got:
            self._role.log.write("got", outcome=outcome, error=error, s=seconds)
            return step.keep_on
        seq, (whole, intact) = payload.sequence_of(got[0]), payload.identify(got[0])
        self._role.log.write("got", outcome="ok", seq=seq, digest=whole, intact=intact, s=seconds)
        if step.hold:
            self._role.held.append((seq, whole, got[0]))
        return True

    def _in_threads(self, count: int, todo: list[Any], act: Callable[[Any], bool]) -> str:
        if count == 1:
            return "ok" if all(act(item) for item in todo) else "stopped"
        unable: list[Exception] = []
        threads = [
            threading.Thread(target=_each, args=(act, todo[lane::count], unable), daemon=True)
            for lane in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if unable:
            raise unable[0]
        return "ok"

    def _recheck(self, _order: Order, _step: script.VerifyHeld) -> str:
        for seq, before, obj in self._role.held:
            now = payload.digest(obj)
            self._role.log.write("recheck", seq=seq, same=now == before, digest=now)
        self._role.held.clear()
        return "ok"

    def look(self, complaints: Path) -> None:
        """Look for the handle's secrets where others could see them; they enter no log."""
        target, end = self._role.target, self._role.end
        if not isinstance(target, HasWire) or not self._shown:
            return
        handle = pickle.loads(self._shown)
        secrets = target.secrets(handle)
        places = {
            "the handle's repr": repr(handle).encode(),
            "the handle's text": str(handle).encode(),
            "its end's repr": repr(end).encode(),
            **secret_scan.own_places(complaints),
        }
        shown = secret_scan.shown(secrets, places)
        self._role.log.write("secrets", count=len(secrets), shown=shown)

    # -- the ring below the queue -----------------------------------------------------------

    def _ring(self) -> HasRing:
        if not isinstance(self._role.target, HasRing):
            raise UnsupportedByTarget("no ring below the queue")
        return self._role.target

    def _ring_write(self, order: Order, step: script.RingWrite) -> str:
        body = payload.pattern(self._role.seed, order.first, step.size)
        self._role.log.write("send", seq=order.first, form="ring", size=step.size)
        with self._ring().ring_write(self._role.end, step.timeout) as chunk:
            chunk[: len(_LENGTH)] = len(body).to_bytes(len(_LENGTH), "big")
            chunk[len(_LENGTH) : len(_LENGTH) + len(body)] = body
            if step.fails:
                raise payload.Unencodable("the fill failed, on purpose")
        self._role.log.write("sent", seq=order.first, outcome="ok", digest=payload.checksum(body))
        return "ok"

    def _ring_read(self, order: Order, step: script.RingRead) -> str:
        with self._ring().ring_read(self._role.end, step.timeout) as chunk:
            size = min(int.from_bytes(chunk[: len(_LENGTH)], "big"), len(chunk))
            whole = payload.checksum(bytes(chunk[len(_LENGTH) : len(_LENGTH) + size]))
            if step.fails:
                raise payload.Undecodable("the decode failed, on purpose")
        self._role.log.write("got", outcome="ok", digest=whole, order=order.id)
        return "ok"

    def _ring_attach(self, order: Order, step: script.RingAttach) -> str:
        shape = script.parse_shape(order.data)
        name = f"killpoint-{os.getpid()}-{step.how}"
        path = Path("/dev/shm") / name
        if step.how == "small":
            path.write_bytes(bytes(4096))
        try:
            self._ring().ring_attach(shape, name)
        finally:
            path.unlink(missing_ok=True)
        return "ok"

    def _fork_copy(self, _order: Order, _step: script.ForkCopy) -> str:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            self._role.log.write("forked-copy", pid=os.getpid())
            with contextlib.suppress(BaseException):
                self._role.end = None
                gc.collect()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        self._role.log.write("copy-ended", pid=pid, status=status)
        return "ok"


def _each(act: Callable[[Any], bool], items: list[Any], unable: list[Exception]) -> None:
    try:
        for item in items:
            if not act(item):
                return
    except Exception as error:
        told = without_evidence(error)
        if told is None:
            raise
        unable.append(told)


make = QueueDriver
