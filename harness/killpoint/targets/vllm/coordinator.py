"""vLLM's coordinator, unmodified, in a loop whose sockets and clock are simulated."""

from __future__ import annotations

import ast
import enum
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import greenlet
import msgspec
import zmq

from killpoint.errors import CannotWork
from killpoint.syntax import parsed
from killpoint.targets.coordinator_messages import Published, Started
from killpoint.targets.vllm.simulated import Replacement
from killpoint.targets.vllm.sources import COORDINATOR, Features, Sources

NOTES = (
    "coordinator: its sockets, poller and clock are simulated; messages to it are encoded by"
    " stand-ins that have only the fields it reads",
)
_LISTEN = b"\x01"
_Waiting = float | None
"""Time until which it waits, in simulated seconds; None: without limit."""


class Stats(msgspec.Struct, array_like=True):
    """Fields of an engine's statistics that the coordinator reads."""

    num_waiting_reqs: int = 0
    num_running_reqs: int = 0
    kv_cache_usage: float = 0.0
    step_counter: int = 0
    current_wave: int = 0


class Outputs(msgspec.Struct, array_like=True):
    """Fields of an engine's messages that the coordinator reads."""

    engine_index: int = 0
    outputs: list[int] = []
    scheduler_stats: Stats | None = None
    utility_output: int | None = None
    wave_complete: int | None = None
    start_wave: int | None = None


class Kind(enum.Enum):
    """Kinds of message to engines; a coordinator sends only this one."""

    START_DP_WAVE = b"start"


class VllmCoordinators:
    """The coordinator's half of the adapter."""

    sources: Sources
    features: Features

    @contextmanager
    def coordinate(self, engines: int) -> Generator[CoordinatorLoop]:
        """Make one, and have it come to its first wait."""
        path = self.sources.root / COORDINATOR
        loop = CoordinatorLoop(front_ends_wake=hears_front_ends(parsed(self.sources.read(path))))
        module = _simulated(self.sources, path, loop)
        made = getattr(module, "DPCoordinatorProc", None) or module.CoordinatorProc
        loop.begin(lambda: made(engine_count=engines).process_input_socket("", "", ""))
        try:
            yield loop
        finally:
            loop.end()


def hears_front_ends(tree: ast.AST) -> bool:
    """Return whether it takes an engine and a wave from front ends."""
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return "engine_to_exclude" in names


class CoordinatorLoop:
    """The coordinator's own loop, as a greenlet that stops wherever it would wait."""

    def __init__(self, *, front_ends_wake: bool) -> None:
        self.front_ends_wake = front_ends_wake
        self.now = 1_000_000.0
        self.made: list[CoordinatorSocket] = []
        self._here = greenlet.getcurrent()
        self._loop: greenlet.greenlet | None = None
        self._until: _Waiting = None
        self._said: list[Started | Published] = []

    # -- what the harness calls -------------------------------------------------------------

    def begin(self, run: Any) -> None:
        """Run until it waits for the first time."""
        self._loop = greenlet.greenlet(run, greenlet.getcurrent())
        self._go_on()

    def end(self) -> None:
        """Make it leave its loop."""
        if self._loop is not None and not self._loop.dead:
            self._loop.throw()

    def arrive(self, engine: int) -> None:
        """Subscribe to the engines' publisher."""
        del engine
        self._give(2, _LISTEN)

    def wake(self, engine: int, wave: int) -> None:
        """Send the tuple that front ends send up their subscription."""
        self._give(0, msgspec.msgpack.encode((engine, wave)))

    def want(self, engine: int, wave: int) -> None:
        """Send ``start_wave``."""
        self._give(1, msgspec.msgpack.encode(Outputs(engine_index=engine, start_wave=wave)))

    def elapse(self, seconds: float) -> None:
        """Let each wait that ends before then end in time."""
        end = self.now + seconds
        while self._until is not None and self._until <= end:
            self.now = max(self.now, self._until)
            self._go_on()
        self.now = end

    def said(self) -> list[Started | Published]:
        """Return what was published since the last call."""
        said, self._said = self._said, []
        return said

    def _give(self, place: int, frame: bytes) -> None:
        self.made[place].inbox.append(frame)
        self._go_on()

    def _go_on(self) -> None:
        assert self._loop is not None
        if self._loop.dead:
            raise CannotWork("vLLM's coordinator has left its loop")
        self._until = None
        waits: object = self._loop.switch()
        if not self._loop.dead:
            self._until = waits if isinstance(waits, float) else None

    # -- what its own code calls ------------------------------------------------------------

    def wait(self, until: _Waiting) -> None:
        """Give the harness its turn."""
        self._here.switch(until)

    def sent(self, line: CoordinatorSocket, parts: list[bytes]) -> None:
        """Decode what it published."""
        if line is self.made[0]:
            _, wave, running = msgspec.msgpack.decode(parts[0])
            self._said.append(Published(wave, running))
        elif len(parts) == 2:
            wave, excluded = msgspec.msgpack.decode(parts[1])
            self._said.append(Started(wave, excluded))


class CoordinatorSocket:
    """One of its three sockets."""

    def __init__(self, loop: CoordinatorLoop) -> None:
        self._loop = loop
        self.inbox: deque[bytes] = deque()
        loop.made.append(self)

    def __enter__(self) -> CoordinatorSocket:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def recv(self, *_: object, **__: object) -> bytes:
        """Return the next frame, once there is one."""
        while not self.inbox:
            self._loop.wait(None)
        return self.inbox.popleft()

    def send(self, frame: bytes, *_: object, **__: object) -> None:
        """Send to all subscribers."""
        self._loop.sent(self, [frame])

    def send_multipart(self, parts: Any, *_: object, **__: object) -> None:
        """Send to all subscribers."""
        self._loop.sent(self, list(parts))


class Poller:
    """Poller over simulated sockets and time; timeouts are in milliseconds."""

    def __init__(self, loop: CoordinatorLoop) -> None:
        self._loop = loop
        self._lines: list[CoordinatorSocket] = []

    def register(self, line: CoordinatorSocket, *_: object) -> None:
        """Add a socket."""
        self._lines.append(line)

    def poll(self, timeout: float | None = None) -> Sequence[tuple[CoordinatorSocket, int]]:
        """Return the sockets that have a frame."""
        until = None if timeout is None else self._loop.now + timeout / 1000
        while not (ready := [(line, zmq.POLLIN) for line in self._lines if line.inbox]):
            if until is not None and self._loop.now >= until:
                break
            self._loop.wait(until)
        return ready


class Decoder:
    """Stand-in for ``MsgpackDecoder``, for the one type that it is asked for."""

    def __init__(self, kind: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(kind)

    def decode(self, data: Any) -> Any:
        """Decode one message."""
        return self._decoder.decode(data)


def served(sources: Sources, path: Path, socket: Callable[..., object]) -> ModuleType:
    """Return the file's own module, with stand-ins for all that it takes from the rest of vLLM.

    ``socket``: its ``make_zmq_socket``.
    """
    module = ModuleType("vllm.v1.engine.coordinator")
    stand_ins = _stand_ins(socket)
    before = {name: sys.modules.get(name) for name in stand_ins}
    try:
        for name, contents in stand_ins.items():
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__dict__.update(contents)
        exec(sources.compiled(path), module.__dict__)
    except ImportError as error:
        raise CannotWork(f"{sources.spec}: its coordinator cannot be imported: {error}") from error
    finally:
        for name, was in before.items():
            if was is None:
                del sys.modules[name]
            else:
                sys.modules[name] = was
    return module


def _simulated(sources: Sources, path: Path, loop: CoordinatorLoop) -> ModuleType:
    def line(*_: object, **__: object) -> CoordinatorSocket:
        return CoordinatorSocket(loop)

    module = served(sources, path, line)
    clock = {"time": lambda: loop.now, "monotonic": lambda: loop.now, "sleep": loop.elapse}
    sockets: dict[str, object] = {"Poller": lambda: Poller(loop), "Context": _nothing}
    module.__dict__.update(time=Replacement(time, clock), zmq=Replacement(zmq, sockets))
    return module


def _stand_ins(socket: Callable[..., object]) -> Mapping[str, Mapping[str, object]]:
    network: dict[str, object] = {
        "make_zmq_socket": socket,
        "get_mp_context": _nothing,
        "get_open_zmq_ipc_path": _nothing,
        "set_process_title": _nothing,
    }
    return {
        "vllm": {"__path__": []},
        "vllm.config": {"ParallelConfig": object, "LoggingConfig": object},
        "vllm.logger": {"init_logger": logging.getLogger, "configure_logging": _nothing},
        "vllm.utils": {"__path__": [], **network},
        "vllm.utils.network_utils": network,
        "vllm.utils.system_utils": network,
        "vllm.v1": {"__path__": []},
        "vllm.v1.engine": {"EngineCoreOutputs": Outputs, "EngineCoreRequestType": Kind},
        "vllm.v1.serial_utils": {"MsgpackDecoder": Decoder},
        "vllm.v1.utils": {"get_engine_client_zmq_addr": _nothing, "shutdown": _nothing},
    }


def _nothing(*_: object, **__: object) -> None:
    pass
