"""A role: a process under test that executes its orders, and logs before and after each action."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import pickle
import select
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

import msgspec

from killpoint import scenario as script
from killpoint.history.log import Log
from killpoint.runner import payload
from killpoint.runner.drivers.coordinator_acts import CoordinatorActs
from killpoint.runner.drivers.engine_acts import EngineActs
from killpoint.runner.drivers.group_acts import GroupActs
from killpoint.runner.drivers.pipe_acts import PipeActs
from killpoint.runner.drivers.pool_acts import PoolActs
from killpoint.runner.environment import clock, resource_limits
from killpoint.runner.environment.coverage_hooks import save_coverage
from killpoint.runner.observe import secret_scan
from killpoint.runner.observe.shm_names import journal_names
from killpoint.runner.points.interruption import STRUCK, apart, comes_of_a_strike
from killpoint.runner.points.point_guard import EXIT_FAULT, PointGuard
from killpoint.runner.points.stores import StoreRecorder
from killpoint.runner.protocol import Arm, Begun, Channel, Closed, Done, Hello, Order
from killpoint.runner.stream import Stream
from killpoint.targets.protocol import (
    Cancels,
    HasRing,
    HasSlots,
    HasWire,
    HasWords,
    Outcome,
    Target,
    UnsupportedByTarget,
)

_TIMED = (script.Ready, script.Send, script.Receive, script.RingWrite, script.RingRead)
_LENGTH = bytes(8)
"""Length prefix of the body of a slot that was filled at the level of the ring."""


class AdapterFault(Exception):
    """The adapter broke its own contract: nothing was learnt of the implementation."""


class _Ends(Exception):
    """The role's interpreter is to end normally."""


class Role:
    """Executes orders on one end of a queue of the target."""

    def __init__(
        self,
        name: str,
        target: Target,
        folder: Path,
        *,
        seed: int,
        observe: bool,
        stores: bool = False,
    ) -> None:
        """Connect to the runner of this play."""
        self.name = name
        self.target = target
        self.seed = seed
        self.log = Log(folder / f"{name}.jsonl", name)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(str(folder / "d"))
        self.channel = Channel(sock)
        self.guard = PointGuard(target, self.channel, self.log)
        self.end: Any = None
        self.held: list[tuple[int, str, Any]] = []
        self.pause = 0.0
        self.handle = b""
        """Handle that the current order has made for other roles to attach by."""
        self._struck = False
        self._shown = b""
        self._complaints = folder / f"{name}.err"
        self._wake = folder / f"{name}.wake"
        journal_names(self.log)
        if (observe or stores) and isinstance(target, HasSlots):
            recorder = StoreRecorder(folder / "order", self.log) if observe else None
            target.observe(self.guard.stores.flags(recorder))
        if stores and isinstance(target, HasWords):
            target.observe_words(self.guard.stores.around)
        self._stream = Stream(self, self._word)
        self.pool = PoolActs(self, folder, self._timed)
        self.pipe = PipeActs(self, folder, self._timed)
        self.coordinator = CoordinatorActs(self, folder)
        self.engine = EngineActs(self, self._timed, self._word)
        self._acts: dict[type, Callable[[Order, Any], str]] = {
            script.Make: self._make,
            script.Attach: self._attach,
            script.Ready: self._ready,
            script.Send: self._send,
            script.Receive: self._receive,
            script.RingWrite: self._ring_write,
            script.RingRead: self._ring_read,
            script.RingAttach: self._ring_attach,
            script.ForkCopy: self._fork_copy,
            script.Look: self._look,
            script.Recheck: self._recheck,
            script.Close: self._close,
            script.Drop: self._drop,
            script.Exit: self._exit,
            script.Fault: self._fault,
            **GroupActs(self, self._timed).table(),
            **self.pool.table(),
            **self.pipe.table(),
            **self.coordinator.table(),
            **self.engine.table(),
        }

    def run(self) -> None:
        """Execute orders until ordered to exit; return to let the interpreter end normally."""
        self.guard.accept_interrupts()
        self.channel.put(Hello(self.name, os.getpid()))
        with contextlib.suppress(Closed, _Ends):
            while True:
                waiting = self.guard.waiting
                packet = waiting.pop(0) if waiting else self.channel.get()
                if isinstance(packet, Arm):
                    self.guard.arm(packet)
                elif isinstance(packet, Order):
                    self._obey(self._as_able(packet))

    def _as_able(self, order: Order) -> Order:
        """Return the order, without its step's timeout where the target has no deadlines.

        A scenario that needs a call to expire is in a case that needs ``deadlines``; elsewhere a
        timeout only bounds a healthy call, which the runner does as well.
        """
        step = order.step
        if isinstance(step, _TIMED) and "deadlines" not in self.target.capabilities:
            step = msgspec.structs.replace(step, timeout=None)
        return msgspec.structs.replace(order, step=step)

    def _obey(self, order: Order) -> None:
        verb = str(order.step.__struct_config__.tag)
        timeout = getattr(order.step, "timeout", None)
        self.log.write("begin", order=order.id, op=verb, timeout=timeout)
        self.channel.put(Begun(order.id))
        began = time.monotonic()
        self.handle, self._addresses = b"", list[str]()
        error = ""
        self._struck = False
        try:
            outcome = apart(lambda: self._acts[type(order.step)](order, order.step))
            if self._struck:
                outcome = "injected"
        except UnsupportedByTarget as lacking:
            outcome, error = "unsupported", str(lacking)
        except STRUCK as injected:
            outcome, error = "injected", str(injected)
        except _Ends:
            self.log.write("end", order=order.id, op=verb, outcome="ok")
            self.channel.put(Done(order.id))
            raise
        except AdapterFault as fault:
            outcome, error = "adapter-fault", str(fault)
        except Exception as raised:
            outcome, error = self._word(raised), brief(raised)
        seconds = round(time.monotonic() - began, 6)
        self.log.write("end", order=order.id, op=verb, outcome=outcome, error=error, s=seconds)
        done = Done(order.id, outcome, error, self.handle, self._addresses, self.coordinator.pid)
        save_coverage()
        self.channel.put(done)

    # -- life of the queue ------------------------------------------------------------------

    def _make(self, order: Order, _step: script.Make) -> str:
        shape = script.parse_shape(order.data)
        with self.guard.during("make", None):
            self.end = self.target.make(shape)
        try:
            handle = self.target.handle(self.end)
            self.handle = pickle.dumps(handle)
        except Exception as error:
            raise AdapterFault(f"the handle cannot be pickled: {brief(error)}") from error
        if shape.remote and isinstance(self.target, HasWire):
            self._addresses = self.target.addresses(handle)
        if shape.silence is not None and "silence" in self.target.capabilities:
            self.log.write("silence", seconds=shape.silence)
        self._shown = self.handle
        return "ok"

    def _attach(self, order: Order, _step: script.Attach) -> str:
        self._shown = order.data
        handle = pickle.loads(order.data)
        if order.routes is not None:
            if not order.routes or not isinstance(self.target, HasWire):
                raise UnsupportedByTarget("its handle shows no address to lead through a relay")
            handle = self.target.rerouted(handle, order.routes)
        with self.guard.during("attach", None):
            self.end = self.target.attach(handle, order.rank)
        return "ok"

    def _ready(self, _order: Order, step: script.Ready) -> str:
        with self.guard.during("ready", self.end):
            self.target.ready(self.end, step.timeout)
        return "ok"

    def _close(self, _order: Order, _step: script.Close) -> str:
        self.give_up("close", self.target.close)
        return "ok"

    def give_up(self, verb: str, close: Callable[[Any], None]) -> None:
        """Close the end and drop the last reference to it, unless an exception struck before."""
        end, self.end = self.end, None
        if end is None:
            return
        with self.guard.during(verb, end):
            try:
                close(end)
            except BaseException as raised:
                if comes_of_a_strike(raised):
                    self.end = end  # closed or not: its holder closes it again
                raise
            del end
            gc.collect()

    def _drop(self, _order: Order, step: script.Drop) -> str:
        if step.cycle:
            knot: list[Any] = [self.end]
            knot.append(knot)
            del knot
        self.end = None
        gc.collect()
        return "ok"

    def _exit(self, order: Order, step: script.Exit) -> str:
        if step.brief:
            if _left_temporary_files():
                atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] # else by teardown alone
            self.log.write("end", order=order.id, op="exit", outcome="ok")
            os._exit(0)
        raise _Ends

    def _fault(self, _order: Order, step: script.Fault) -> str:
        if step.fault == "slow":
            self.pause = step.pause
        elif step.fault == "starve":
            left = resource_limits.leave_descriptors(step.spare)
            self.log.write("starved", spare=step.spare, limit=left)
        elif step.fault == "exit":
            self.log.write("exiting", how="os._exit")
            os._exit(EXIT_FAULT)
        elif step.fault == "jump-clock":
            self.log.write("jumped", s=round(clock.jump(step.hours * 3600), 3))
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
        obj = payload.build(message, self.seed, seq, size)
        known = message.kind not in ("undecodable", "unencodable")
        return obj, payload.digest(obj) if known else message.kind

    def _send_one(
        self,
        step: script.Send,
        built: tuple[Any, str],
        seq: int,
        message: script.Message,
        size: int,
    ) -> bool:
        if self.pause:
            select.select([], [], [], self.pause)
        obj, whole = built
        known = whole != message.kind
        self.log.write(
            "send",
            seq=seq,
            form=message.kind,
            size=size,
            digest=whole,
            timeout=step.timeout,
        )
        outcome, error, seconds = self._timed(
            "send", lambda: self.target.send(self.end, obj, step.timeout)
        )
        self.log.write("sent", seq=seq, outcome=outcome, error=error, s=seconds)
        if step.mutate and outcome == "ok" and known and payload.mutate(obj):
            self.log.write("mutated", seq=seq, digest=payload.digest(obj))
        return outcome == "ok" or step.keep_on

    def _receive(self, _order: Order, step: script.Receive) -> str:
        if step.pace is not None:
            return self._stream.receive(step)
        todo = list(range(step.count))
        return self._in_threads(step.threads, todo, lambda _: self._receive_one(step))

    def _receive_one(self, step: script.Receive) -> bool:
        if self.pause:
            select.select([], [], [], self.pause)
        self.log.write("receive", timeout=step.timeout)
        got: list[Any] = []
        outcome, error, seconds = self._timed(
            "receive", lambda: got.append(self.target.receive(self.end, step.timeout))
        )
        if not got:
            self.log.write("got", outcome=outcome, error=error, s=seconds)
            return step.keep_on
        seq, whole = payload.sequence_of(got[0]), payload.digest(got[0])
        self.log.write(
            "got", outcome="ok", seq=seq, digest=whole, intact=payload.intact(got[0]), s=seconds
        )
        if step.hold:
            self.held.append((seq, whole, got[0]))
        return True

    def _timed(self, verb: str, act: Callable[[], object]) -> tuple[str, str, float]:
        began = time.monotonic()
        outcome, error = "ok", ""
        try:
            with self.guard.during(verb, self.end):
                began = time.monotonic()
                self._until_taken(act)
        except STRUCK as injected:
            self._struck = True
            outcome, error = "injected", str(injected)
        except UnsupportedByTarget:
            raise  # the order as a whole cannot be obeyed: that is no outcome of the call
        except Exception as raised:
            outcome, error = self._word(raised), brief(raised)
        return outcome, error, round(time.monotonic() - began, 6)

    def _word(self, raised: Exception) -> str:
        if comes_of_a_strike(raised):
            self._struck = True
            return "injected"
        try:
            word = self.target.classify(raised)
        except Exception as error:
            raise AdapterFault(f"classify({brief(raised)}) raised {brief(error)}") from error
        if word not in get_args(Outcome):
            expected = ", ".join(get_args(Outcome))
            raise AdapterFault(f"classify gave {word!r}; expected one of: {expected}")
        return word

    def _until_taken(self, act: Callable[[], object]) -> None:
        """Call; repeat while it reports that another thread of this role is in the object."""
        while True:
            try:
                act()
            except Exception as raised:
                if threading.active_count() == 1 or self._word(raised) != "busy":
                    raise
            else:
                return
            os.sched_yield()

    def _in_threads(self, count: int, todo: list[Any], act: Callable[[Any], bool]) -> str:
        if count == 1:
            return "ok" if all(act(item) for item in todo) else "stopped"
        lacking: list[UnsupportedByTarget] = []
        threads = [
            threading.Thread(target=_each, args=(act, todo[lane::count], lacking), daemon=True)
            for lane in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if lacking:
            raise lacking[0]
        return "ok"

    def _recheck(self, _order: Order, _step: script.Recheck) -> str:
        for seq, before, obj in self.held:
            now = payload.digest(obj)
            self.log.write("recheck", seq=seq, same=now == before, digest=now)
        self.held.clear()
        return "ok"

    def _look(self, _order: Order, _step: script.Look) -> str:
        """Look for the handle's secrets where others could see them; they enter no log."""
        if self.pipe.opened:
            self.pipe.look(self._complaints)
        if not isinstance(self.target, HasWire) or not self._shown:
            return "ok"
        handle = pickle.loads(self._shown)
        secrets = self.target.secrets(handle)
        places = {
            "the handle's repr": repr(handle).encode(),
            "the handle's text": str(handle).encode(),
            "its end's repr": repr(self.end).encode(),
            **secret_scan.own_places(self._complaints),
        }
        self.log.write("secrets", count=len(secrets), shown=secret_scan.shown(secrets, places))
        return "ok"

    # -- the ring below the queue -----------------------------------------------------------

    def _ring(self) -> HasRing:
        if not isinstance(self.target, HasRing):
            raise UnsupportedByTarget("no ring below the queue")
        return self.target

    def _ring_write(self, order: Order, step: script.RingWrite) -> str:
        body = payload.pattern(self.seed, order.first, step.size)
        self.log.write("send", seq=order.first, form="ring", size=step.size)
        with self._ring().ring_write(self.end, step.timeout) as chunk:
            chunk[: len(_LENGTH)] = len(body).to_bytes(len(_LENGTH), "big")
            chunk[len(_LENGTH) : len(_LENGTH) + len(body)] = body
            if step.fails:
                raise payload.Unencodable("the fill failed, on purpose")
        self.log.write("sent", seq=order.first, outcome="ok", digest=payload.checksum(body))
        return "ok"

    def _ring_read(self, order: Order, step: script.RingRead) -> str:
        with self._ring().ring_read(self.end, step.timeout) as chunk:
            size = min(int.from_bytes(chunk[: len(_LENGTH)], "big"), len(chunk))
            whole = payload.checksum(bytes(chunk[len(_LENGTH) : len(_LENGTH) + size]))
            if step.fails:
                raise payload.Undecodable("the decode failed, on purpose")
        self.log.write("got", outcome="ok", digest=whole, order=order.id)
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
            self.log.write("forked-copy", pid=os.getpid())
            with contextlib.suppress(BaseException):
                self.end = None
                gc.collect()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        self.log.write("copy-ended", pid=pid, status=status)
        return "ok"

    # -- being cancelled --------------------------------------------------------------------

    def listen_for_cancel(self) -> None:
        """Start the second thread, which cancels this role's end at the runner's request."""
        if not isinstance(self.target, Cancels):
            return
        os.mkfifo(self._wake, 0o600)
        threading.Thread(target=self._cancel_when_told, daemon=True).start()

    def _cancel_when_told(self) -> None:
        with self._wake.open("rb") as wake:
            wake.read(1)
        self.log.write("cancel")
        try:
            cast("Cancels", self.target).cancel(self.end)
        except UnsupportedByTarget as lacking:
            self.log.write("cancel-unsupported", error=str(lacking))
        else:
            self.log.write("cancelled")


def _left_temporary_files() -> bool:
    """Return whether temporary files are left that a handler at exit may remove.

    Without a descriptor to spare that cannot be seen, and counts as none.
    """
    try:
        return bool(os.listdir(tempfile.gettempdir()))  # noqa: PTH208 # fails as such, no generator
    except OSError:
        return False


def _each(act: Callable[[Any], bool], items: list[Any], lacking: list[UnsupportedByTarget]) -> None:
    try:
        for item in items:
            if not act(item):
                return
    except UnsupportedByTarget as error:
        lacking.append(error)


def brief(error: BaseException) -> str:
    """Return an exception as one line, with the place that raised it."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = f" ({Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno})" if last else ""
    text = " ".join(str(error).split())
    return (
        f"{type(error).__name__}: {text[:300]}{where}" if text else f"{type(error).__name__}{where}"
    )
