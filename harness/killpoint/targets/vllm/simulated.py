"""Simulated memory and time for vLLM's unmodified queue, by its module's globals alone."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any

import zmq

from killpoint.errors import CannotWork
from killpoint.interfaces import Segment, SimulatedEnvironment

_BUFFERS: tuple[type, ...] = (bytes, bytearray, memoryview)


@contextmanager
def rebound(module: ModuleType, environment: SimulatedEnvironment) -> Generator[None]:
    """Until left, the module's globals are stand-ins that lead into the environment.

    A global that a release does not have is not given to it, but for the built-in memoryview.
    """
    kept = module.__dict__.copy()
    for name, value in globals_for(module, environment).items():
        if name in kept or name == "memoryview":
            setattr(module, name, value)
    try:
        yield
    finally:
        module.__dict__.clear()
        module.__dict__.update(kept)


def globals_for(module: Any, environment: SimulatedEnvironment) -> dict[str, object]:
    """Return the stand-ins, by the name of the global that each takes the place of."""
    spin = environment_spin(environment)
    stood_in: dict[str, object] = {
        "pickle": Replacement(pickle, {"loads": _loads}),
        "shared_memory": Replacement(module.shared_memory, {"SharedMemory": _memory(environment)}),
        "memoryview": _view,
        "time": Replacement(time, {"monotonic": environment.now, "sleep": environment.sleep}),
        "sched_yield": spin,
        "_memory_fence_lock": FenceLock(environment),
        "patch": _no_patch,
        "check_shm_free_space": _no_check,
    }
    if environment.sockets is None:
        stood_in |= {
            "Context": _NoContext,
            "zmq": Replacement(zmq, {"Poller": lambda: _NoPoller(spin), "Context": _NoContext}),
        }
    else:
        made: dict[str, object] = {
            "Poller": lambda: environment.sockets.Poller(),
            "Context": lambda: environment.sockets.Context(),
        }
        stood_in |= {"Context": made["Context"], "zmq": Replacement(zmq, made)}
    return stood_in


def environment_spin(environment: SimulatedEnvironment) -> Any:
    """Return a ``sched_yield`` that lets the world decide whose turn it is."""

    def sched_yield() -> None:
        environment.spin("a slot")

    return sched_yield


class Replacement:
    """A module with a few of its contents replaced."""

    def __init__(self, module: ModuleType, instead: Mapping[str, object]) -> None:
        self.__dict__.update(instead)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class FenceLock:
    """Stand-in for vLLM's fence, a lock that is taken and given back: both are one full fence."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self._environment = environment

    def __enter__(self) -> None:
        self._environment.fence()

    def __exit__(self, *_: object) -> None:
        pass


class Named:
    """Segment that takes names for its bytes."""

    _segment: Segment

    def call(self, namer: Callable[[int, int], str]) -> None:
        """Name the bytes for readers of a schedule."""
        self._segment.call(namer)


def _memory(environment: SimulatedEnvironment) -> Any:
    class SharedMemory(Named):
        """A simulated segment in the shape of the standard library's."""

        def __init__(self, name: str | None = None, create: bool = False, size: int = 0) -> None:
            made = environment.create(size) if create or name is None else None
            self._segment = made or environment.attach(str(name))
            self.name, self.size = self._segment.name, self._segment.size

        @property
        def buf(self) -> Any:
            """A real buffer as long as no task runs: constructors hand it to torch."""
            idle = environment.world.current == "-"
            return self._segment.plain if idle else self._segment.buf

        def close(self) -> None:
            """Do nothing: it ends with its world."""

        def unlink(self) -> None:
            """Do nothing, likewise."""

    return SharedMemory


def _loads(data: Any, *, buffers: Any = ()) -> Any:
    return pickle.loads(_real(data), buffers=[_real(buffer) for buffer in buffers])


def _real(data: Any) -> Any:
    """Return what C code takes for a buffer."""
    return data if isinstance(data, _BUFFERS) else bytes(data)


def _view(thing: Any) -> Any:
    """Stand in for ``memoryview``, for releases that wrap each slice in another one."""
    return memoryview(thing) if isinstance(thing, _BUFFERS) else thing[:]


def _no_patch(*_: object, **__: object) -> Any:
    return nullcontext()


def _no_check(*_: object, **__: object) -> None:
    pass


class _NoContext:
    """Sockets that can be made and named, in a world where nothing is ever sent."""

    def socket(self, *_: object) -> _NoSocket:
        """Make one."""
        return _NoSocket()

    def term(self) -> None:
        """Do nothing."""


class _NoSocket:
    def __getattr__(self, name: str) -> Any:
        if name in ("setsockopt", "setsockopt_string", "bind", "connect", "close"):
            return _nothing
        if name == "bind_to_random_port":
            return _port
        raise CannotWork(f"a socket was asked to {name} in a world without sockets")

    def send(self, content: Any, *_: object, **__: object) -> None:
        """Take the one-byte wake-up of idle readers, whom time wakes here; refuse a payload."""
        if len(content) > 1:
            raise CannotWork("a message took the overflow path in a world without sockets")

    def poll(self, *_: object, **__: object) -> int:
        """Return 0: nothing has come."""
        return 0


class _NoPoller:
    """Poller of an idle reader: it looks again when something has changed."""

    def __init__(self, spin: Any) -> None:
        self._spin = spin

    def register(self, *_: object) -> None:
        """Do nothing."""

    def poll(self, *_: object, **__: object) -> list[tuple[Any, int]]:
        """Let others run; return no event."""
        self._spin()
        return []


def _port(*_: object, **__: object) -> int:
    return 1


def _nothing(*_: object, **__: object) -> None:
    pass
