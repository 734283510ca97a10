"""A role: a process under test that executes its orders, and logs before and after each action."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

import msgspec

from killpoint import scenario as script
from killpoint.history.log import Log
from killpoint.runner.driver import (
    AdapterFault,
    Driver,
    HarnessFault,
    NoEvidence,
    brief,
    of_harness_alone,
)
from killpoint.runner.environment import clock, resource_limits
from killpoint.runner.environment.coverage_hooks import save_coverage
from killpoint.runner.observe.shm_names import journal_names
from killpoint.runner.points.interruption import STRUCK, comes_of_a_strike, isolated
from killpoint.runner.points.point_guard import EXIT_FAULT, PointGuard
from killpoint.runner.points.stores import StoreRecorder
from killpoint.runner.protocol import Arm, Begun, Channel, Closed, Done, Hello, Order
from killpoint.systems.registry import part
from killpoint.targets.protocol import (
    Cancels,
    HasSlots,
    HasWords,
    Outcome,
    Target,
    UnsupportedByTarget,
)

_TIMED = (script.Ready, script.Send, script.Receive, script.RingWrite, script.RingRead)


class _Ends(Exception):
    """The role's interpreter is to end normally."""


class Role:
    """Executes the orders of the runner on its own part of the target."""

    def __init__(
        self,
        name: str,
        target: Target,
        folder: Path,
        *,
        system: str,
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
        self.addresses = list[str]()
        """TCP addresses in that handle, as far as the target shows them."""
        self._struck = False
        self._complaints = folder / f"{name}.err"
        self._wake = folder / f"{name}.wake"
        journal_names(self.log)
        if (observe or stores) and isinstance(target, HasSlots):
            recorder = StoreRecorder(folder / "order", self.log) if observe else None
            target.observe(self.guard.stores.flags(recorder))
        if stores and isinstance(target, HasWords):
            target.observe_words(self.guard.stores.around)
        self._driver: Driver = part(system, "driver").make(self, folder)
        self._acts: dict[type, Callable[[Order, Any], str]] = {
            script.ProbeExposure: self._look,
            script.Exit: self._exit,
            script.Fault: self._fault,
            **self._driver.table(),
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

    def _act_of(self, step: script.AnyStep) -> Callable[[Order, Any], str]:
        act = self._acts.get(type(step))
        if act is None:
            raise UnsupportedByTarget(f"{step.__struct_config__.tag} is no step of this system")
        return act

    def _obey(self, order: Order) -> None:
        verb = str(order.step.__struct_config__.tag)
        timeout = getattr(order.step, "timeout", None)
        self.log.write("begin", order=order.id, op=verb, timeout=timeout)
        self.channel.put(Begun(order.id))
        began = time.monotonic()
        self.handle, self.addresses = b"", list[str]()
        error = ""
        self._struck = False
        try:
            outcome = isolated(lambda: self._act_of(order.step)(order, order.step))
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
        except Exception as raised:
            outcome, error = self._told(raised)
        seconds = round(time.monotonic() - began, 6)
        self.log.write("end", order=order.id, op=verb, outcome=outcome, error=error, s=seconds)
        done = Done(order.id, outcome, error, self.handle, self.addresses, self._driver.child)
        save_coverage()
        self.channel.put(done)

    def _told(self, raised: Exception) -> tuple[str, str]:
        """Return the outcome of a step that ended with an exception, and the error."""
        try:
            return self.outcome_of(raised), brief(raised)
        except NoEvidence as fault:
            return fault.outcome, str(fault)

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

    def _look(self, _order: Order, _step: script.ProbeExposure) -> str:
        self._driver.look(self._complaints)
        return "ok"

    def come(self) -> None:
        """Prepare this process for the steps of its system."""
        self._driver.come()

    def interrupted(self) -> None:
        """Do what a program of its system does about Ctrl-C."""
        self._driver.interrupted()

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
        else:
            self._driver.fault(step)
        return "ok"

    def timed(self, verb: str, act: Callable[[], object]) -> tuple[str, str, float]:
        """Call the target under watch; return the outcome, the error and the seconds it took.

        Raises:
            UnsupportedByTarget: the order as a whole cannot be obeyed.
        """
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
            outcome, error = self.outcome_of(raised), brief(raised)
        return outcome, error, round(time.monotonic() - began, 6)

    def outcome_of(self, raised: Exception) -> str:
        """Return the target's own word for an exception.

        Raises:
            NoEvidence: it came of the harness alone, or the target's ``classify`` failed, or gave
                no outcome.
        """
        if comes_of_a_strike(raised):
            self._struck = True
            return "injected"
        if isinstance(raised, NoEvidence):
            raise raised
        if of_harness_alone(raised):
            raise HarnessFault(brief(raised))
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
                if threading.active_count() == 1 or self.outcome_of(raised) != "busy":
                    raise
            else:
                return
            os.sched_yield()

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
