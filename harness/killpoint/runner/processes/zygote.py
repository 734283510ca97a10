"""The zygote: imports the target once, single-threaded, and forks roles from that state.

It is a subreaper: a process that a role leaves running becomes its child, so that none of a play
can escape the ledger. It ends with its runner.

Stages side by side need a zygote each. One zygote without roles forks them, so that the target, and
torch, are imported once for all of them.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import resource
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, get_args

import msgspec

from killpoint import extensions
from killpoint.errors import BadUsage, CannotWork, KillpointError
from killpoint.extras import installed, lacking
from killpoint.history.record import History
from killpoint.ledger import owned_names
from killpoint.runner.environment import private_shm
from killpoint.runner.environment.coverage_hooks import save_coverage
from killpoint.runner.network import flood, netns, port_attacker
from killpoint.runner.points.line_recorder import begin as begin_recording
from killpoint.runner.processes import remote_call
from killpoint.runner.processes.entry import enter_play, live_as_role
from killpoint.runner.processes.launcher import launch
from killpoint.runner.processes.shell import become_job
from killpoint.runner.processes.target_agent import TARGET
from killpoint.runner.protocol import (
    Channel,
    Closed,
    Exited,
    Forked,
    ForkRole,
    ForkZygote,
    Loaded,
)
from killpoint.runner.role import brief
from killpoint.systems.registry import OURS, part
from killpoint.targets.coordinator_messages import HasCoordinator
from killpoint.targets.coordinator_protocol import RunsCoordinator
from killpoint.targets.disclaimer import Disclaimer
from killpoint.targets.engine_protocol import HasEngine
from killpoint.targets.native import native_code
from killpoint.targets.own_files import own_files
from killpoint.targets.protocol import (
    Cancels,
    Capability,
    CombinesTransfers,
    HasBlocks,
    HasGroup,
    HasPipe,
    HasPoints,
    HasPool,
    HasRing,
    HasSlots,
    HasWire,
    Preforks,
    Simulates,
    Target,
)
from killpoint.targets.registry import build

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1
_PROTOCOLS: dict[str, type] = {
    "cancel": Cancels,
    "ring": HasRing,
    "slots": HasSlots,
    "points": HasPoints,
    "wire": HasWire,
    "group": HasGroup,
    "pool": HasPool,
    "transfers": CombinesTransfers,
    "pipe": HasPipe,
    "blocks": HasBlocks,
    "coordinator": HasCoordinator,
    "coordinator_process": RunsCoordinator,
    "engine": HasEngine,
    "sim_memory": Simulates,
    "sim_sockets": Simulates,
    "clock": Simulates,
}

_OURS = ("numpy", "_posixshmem")
"""Modules that the roles' own half needs."""
_PRELOADS = ("torch",)
"""Further modules, where installed, unless the target names its own: imported once here, not in
each role."""
_NO_TORCH = lacking("torch", "reference")


_COPIES_LEAVE_WITHIN = 10.0
"""Seconds for forked zygotes to remove what their plays left, once the runner is gone."""


class _BecomeRole(BaseException):
    """Raised in a forked child to leave the zygote's stack and become this role."""

    def __init__(self, order: ForkRole) -> None:
        super().__init__(order.role)
        self.order = order


class _BecomeZygote(BaseException):
    """Raised in a forked child to serve another channel as a zygote."""

    def __init__(self, order: ForkZygote, channel: Channel) -> None:
        super().__init__(order.root)
        self.order = order
        self.channel = channel


def main() -> None:
    """Serve the runner at the other end of a socket.

    ``argv``: descriptor, spec, plays' root, and modules to import beyond those of the target.
    """
    fd, spec, root = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    _adopt_orphans()
    channel = Channel(socket.socket(fileno=fd))
    os.environ[TARGET] = spec  # for the workers of a pool, by any start method
    gc.disable()  # what is imported is no garbage, and a search for some takes a fifth of the time
    target, told = _load(spec, channel, sys.argv[4:])
    begun = os.getpid()
    while True:
        gc.collect()
        gc.freeze()
        gc.enable()
        channel.put(told)
        parent = os.getpid()
        try:
            _serve(channel, root)
            _leave(first=parent == begun)
        except _BecomeRole as role:
            channel.close()
            _live(role.order, target, parent, spec)
            return
        except _BecomeZygote as copy:
            channel.close()
            channel, root = copy.channel, Path(copy.order.root)
            told = _begin_copy(copy.order, told, channel)


def _leave(*, first: bool) -> NoReturn:
    """End without a teardown of the interpreter, which takes a third of the time of torch's import.

    ``first``: what imported modules have registered for the exit is called; not so in a copy, which
    has it by its fork.
    """
    if first:
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] # else by teardown alone
    save_coverage()
    os._exit(0)


def _adopt_orphans() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _begin_copy(order: ForkZygote, told: Loaded, channel: Channel) -> Loaded:
    """Become a zygote of one's own, with further modules; return what its runner is told."""
    os.setsid()
    _adopt_orphans()
    gc.disable()
    try:
        _preload(order.preloads)
    except Exception as error:
        _refuse(channel, error)
    return msgspec.structs.replace(told, pid=os.getpid(), torch="torch" in sys.modules)


def _load(spec: str, channel: Channel, more: Sequence[str]) -> tuple[Target, Loaded]:
    try:
        target = build(spec)
        target.load()
        _check_promises(target)
        _preload([*_OURS, *getattr(target, "preloads", filter(installed, _PRELOADS)), *more])
    except Exception as error:
        _refuse(channel, error)
    notes = [str(note) for note in getattr(target, "notes", ())]
    if not installed("torch"):
        notes.append(f"tensors among other messages were sent as arrays: {_NO_TORCH}")
    found: set[str] = {"native"} if native_code(target) else set()
    words = sorted(found.union(target.capabilities))
    name, version = str(target.name), str(target.version)
    torch = "torch" in sys.modules
    limits: list[Disclaimer] = list(getattr(target, "disclaimers", ()))
    files = own_files(target)
    forks = {
        system: list(modules)
        for system in ("pool", "engine")
        if isinstance(target, Preforks)
        and (modules := target.prefork_modules(system))
        and all(installed(name.partition(".")[0]) for name in modules)
    }
    told = Loaded(
        os.getpid(),
        name,
        version,
        list(words),
        notes,
        limits,
        torch=torch,
        files=files,
        prefork_modules=forks,
    )
    return target, told


def _refuse(channel: Channel, error: Exception) -> NoReturn:
    """Tell the runner why nothing can be played, and end."""
    ours = isinstance(error, (CannotWork, OSError, MemoryError))
    text = str(error) if isinstance(error, KillpointError) else brief(error)
    channel.put(Loaded(os.getpid(), error=text, missing=not ours))
    sys.exit(0)


def _check_promises(target: Target) -> None:
    """Check that each capability a target claims is known, with its methods there.

    Raises:
        BadUsage: one is not.
    """
    known = (*get_args(Capability), *extensions.entries("systems"))
    for word in sorted(target.capabilities):
        if word not in known:
            raise BadUsage(f"unknown capability {word!r}; expected some of: {', '.join(known)}")
        protocol = _PROTOCOLS.get(word)
        if protocol is not None and not isinstance(target, protocol):
            raise BadUsage(f"claims capability {word!r} but lacks a method of {protocol.__name__}")


def _preload(names: Sequence[str]) -> None:
    """Import once the modules that roles need.

    Raises:
        RuntimeError: an import has started a thread; forks of such a process are not safe.
    """
    for name in names:
        importlib.import_module(name)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise RuntimeError(f"the target's import started {threads - 1} threads: cannot fork safely")


def _serve(channel: Channel, root: Path) -> None:
    """Obey the runner until it is gone, then remove what its plays left."""
    wake_r, wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, _note)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(wake_w)
    poller = select.poll()
    poller.register(channel.fileno(), select.POLLIN)
    poller.register(wake_r, select.POLLIN)
    copies: list[int] = []
    while True:
        ready = {fd for fd, _ in poller.poll()}
        if wake_r in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_r, 4096)
        ended = _reap(channel)
        copies = [pid for pid in copies if pid not in ended]
        if channel.fileno() in ready:
            try:
                order = channel.get()
            except Closed:
                _await_ends(copies, _COPIES_LEAVE_WITHIN)
                _end_descendants()
                _remove_segments(root)
                shutil.rmtree(root, ignore_errors=True)
                return
            if isinstance(order, ForkRole):
                _fork(order, channel, (wake_r, wake_w))
            elif isinstance(order, ForkZygote):
                copies.append(_fork_zygote(order, channel, (wake_r, wake_w)))


def _note(_number: int, _frame: object) -> None:
    """Do nothing: the wake-up descriptor has a byte now."""


def _reap(channel: Channel) -> set[int]:
    """Report the ends of children, and return their pids."""
    ended: set[int] = set()
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.add(pid)
        with contextlib.suppress(Closed):
            channel.put(Exited(pid, status))


def _fork(order: ForkRole, channel: Channel, fds: tuple[int, int]) -> None:
    if order.system in OURS:
        part(order.system, "driver")  # here once, and not in each of its roles
    pid = os.fork()
    if pid == 0:
        _forget_service(fds)
        raise _BecomeRole(order)
    channel.put(Forked(order.role, pid))


def _fork_zygote(order: ForkZygote, channel: Channel, fds: tuple[int, int]) -> int:
    own = Channel(socket.socket(fileno=channel.fds.pop()))
    pid = os.fork()
    if pid == 0:
        _forget_service(fds)
        raise _BecomeZygote(order, own)
    own.close()
    channel.put(Forked(order.root, pid))
    return pid


def _forget_service(fds: tuple[int, int]) -> None:
    """Undo in a forked child what was set up to serve the runner."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for fd in fds:
        os.close(fd)


def _await_ends(pids: Sequence[int], within: float) -> None:
    """Wait until these children have ended."""
    end = time.monotonic() + within
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended and was reaped
            watched = os.pidfd_open(pid)
            try:
                select.select([watched], [], [], max(0.0, end - time.monotonic()))
            finally:
                os.close(watched)


def _live(order: ForkRole, target: Target, parent: int, spec: str) -> None:
    """Run as the role (or the process that starts it by another method) until it ends normally."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    if order.umask is not None:
        os.umask(order.umask)
    if order.flooded:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (flood.NOFILE, hard))
    if order.shm_of:
        private_shm.join(order.shm_of)
    if order.net_of:
        netns.join(order.net_of, order.netns_fd)
    if order.start == private_shm.KEEPER:
        private_shm.keep(Path(order.folder), int(order.request))
    elif order.start == netns.KEEPER:
        netns.keep(Path(order.folder), order.request)
    elif order.start == remote_call.CALLED:
        enter_play(Path(order.folder), order.role)
        remote_call.run(Path(order.folder), target, order.request)
    elif order.start == port_attacker.STRANGER:
        enter_play(Path(order.folder), order.role, temporary="strangers")
        port_attacker.run(order.role, Path(order.folder), order.request)
    elif order.start == "zygote":
        if order.terminal:
            become_job(order.terminal, Path(order.folder))
        enter_play(Path(order.folder), order.role)
        begin_recording(Path(order.folder))
        if order.preforks and isinstance(target, Preforks):
            target.prefork(order.system)
        live_as_role(order, target)
    else:
        enter_play(Path(order.folder), f"{order.role}-launcher", temporary="launchers")
        launch(order, spec, target)


def _end_descendants() -> None:
    """Kill all descendants, since the runner is gone."""
    me = os.getpid()
    for _ in range(64):
        kids = Path(f"/proc/{me}/task/{me}/children").read_text().split()
        if not kids:
            return
        for kid in kids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(kid), signal.SIGKILL)
        for kid in kids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(kid), 0)


def _remove_segments(root: Path) -> None:
    """Remove the segments of plays that were not settled: their roles are gone."""
    for play in root.glob("*"):
        for name in owned_names(History.read(play)):
            with contextlib.suppress(OSError):
                Path("/dev/shm", Path(name).name).unlink()


if __name__ == "__main__":
    main()
