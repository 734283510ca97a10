"""A small engine of its own: replicas with workers over sockets, and a front end with a thread.

It is here to be judged (docs/targets.md), and knows nothing of who judges it. A token is a sum of
what each worker makes of all tokens before it. A replica keeps what its workers made of whole
blocks, and uses it again for requests that begin with the same ones. One that dies is started
again; what it had goes on elsewhere, behind the tokens that were given. It has no coordinator, and
cannot prefill elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from killpoint.targets.engine_protocol import EngineHealth, EnginePiece, EngineShape
    from killpoint.targets.protocol import Capability, Outcome

END, BEAT, STUCK, TICK = 256, 0.2, 1.5, 0.01
_MODULUS = 1_000_003
STEP = 0.001
"""Seconds that a worker takes for a token: it is not to be quicker than anybody can look."""


# -- the model ---------------------------------------------------------------------------------


def fold(state: int, token: int, rank: int) -> int:
    """What one worker makes of one more token."""
    return (state * (31 + 2 * rank) + token * 7 + rank + 1) % _MODULUS


def alone(prompt: Sequence[int], most: int, workers: int) -> tuple[list[int], str]:
    """The model by itself."""
    states = [0] * workers
    for token in prompt:
        states = [fold(state, token, rank) for rank, state in enumerate(states)]
    given: list[int] = []
    while len(given) < most:
        token = sum(states) % (END + 1)
        if token == END:
            return given, "stop"
        given.append(token)
        states = [fold(state, token, rank) for rank, state in enumerate(states)]
    return given, "length"


# -- its processes -----------------------------------------------------------------------------


class Line:
    """Messages over a socket, one a line."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._rest = b""

    def put(self, *message: Any) -> None:
        self.sock.sendall(json.dumps(message).encode() + b"\n")

    def take(self) -> list[list[Any]]:
        """What has come; OSError once the other side is gone."""
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


def child(role: str, *arguments: object) -> tuple[subprocess.Popen[bytes], Line]:
    """One more process, which ends when the line to it does."""
    ours, theirs = socket.socketpair()
    words = [sys.executable, "-S", "-E", __file__, role, str(theirs.fileno())]
    process = subprocess.Popen(
        [*words, *map(str, arguments)], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
    )
    theirs.close()
    return process, Line(ours)


def work(line: Line, rank: int) -> None:
    """A worker: what it makes of tokens, from a state that it is told."""
    while True:
        for number, state, tokens in line.take():
            time.sleep(STEP)
            for token in tokens:
                state = fold(state, token, rank)
            line.put(number, state)


class Core:
    """A replica: takes requests in turn, a step each, and has its workers do the work."""

    def __init__(self, line: Line, workers: int, block: int) -> None:
        self.line, self.block = line, block
        made = [child("worker", rank) for rank in range(workers)]
        self.workers = [each for _, each in made]
        self.line.put("ready", [process.pid for process, _ in made])
        self.kept: dict[tuple[int, ...], list[int]] = {}
        self.running: list[dict[str, Any]] = []
        self.steps = 0

    def key(self, tokens: list[int]) -> tuple[int, ...]:
        """What the state after some whole blocks is kept under."""
        return tuple(tokens)

    def make(self, states: list[int], tokens: list[int]) -> list[int]:
        """All workers' states after some more tokens."""
        for worker, state in zip(self.workers, states, strict=True):
            worker.put(self.steps, state, tokens)
        return [self.answer(worker) for worker in self.workers]

    def answer(self, worker: Line) -> int:
        """Of one worker, for this step."""
        while True:
            for number, state in worker.take():
                if number == self.steps:
                    return state

    def prefill(self, request: dict[str, Any]) -> None:
        """One block more of what was asked, or what is left."""
        done, tokens = request["done"], request["tokens"]
        upto = min(done + self.block, len(tokens))
        whole = upto - done == self.block
        key = self.key(tokens[:upto]) if whole else ()
        if whole and key in self.kept:
            request["states"] = self.kept[key]
        else:
            request["states"] = self.make(request["states"], tokens[done:upto])
            if whole:
                self.kept[key] = request["states"]
        request["done"] = upto

    def step(self, request: dict[str, Any]) -> None:
        """Some progress of one request."""
        self.steps += 1
        if request["done"] < len(request["tokens"]):
            self.prefill(request)
            return
        token = sum(request["states"]) % (END + 1)
        if token != END:
            request["tokens"].append(token)
            request["left"] -= 1
            self.line.put("token", request["id"], token)
        if token == END or not request["left"]:
            self.line.put("finish", request["id"], "stop" if token == END else "length")
            self.running.remove(request)
            return
        self.prefill(request)

    def hear(self, message: list[Any]) -> None:
        if message[0] == "ask":
            _, id, tokens, most = message
            states = [0] * len(self.workers)
            request = {"id": id, "tokens": tokens, "left": most, "done": 0, "states": states}
            self.running.append(request)
        for request in list(self.running):
            if message[0] == "cancel" and request["id"] == message[1]:
                self.running.remove(request)
                self.line.put("finish", request["id"], "cancelled")

    def live(self) -> None:
        ear = selectors.DefaultSelector()
        ear.register(self.line.sock, selectors.EVENT_READ)
        beat = 0.0
        while True:
            if ear.select(0 if self.running else BEAT):
                for message in self.line.take():
                    self.hear(message)
            for request in list(self.running):
                self.step(request)
            if time.monotonic() - beat > BEAT:
                beat = time.monotonic()
                self.line.put("beat", self.steps)


def main() -> None:
    """One of the engine's processes, by its first argument."""
    role, fd, *rest = sys.argv[1:]
    line = Line(socket.socket(fileno=int(fd)))
    with contextlib.suppress(OSError):  # whoever started it is gone
        if role == "worker":
            work(line, int(rest[0]))
        else:
            import importlib

            sys.path.insert(0, str(Path(__file__).parent))
            home = importlib.import_module(rest[0])
            getattr(home, rest[1])(line, int(rest[2]), int(rest[3])).live()


# -- the front end -----------------------------------------------------------------------------


class Failed(Exception):
    """A request ended without a finish."""


class Refused(Exception):
    """It was never begun."""


class Closed(Exception):
    """The engine was stopped."""


class Request:
    """What was asked for, and what has come of it."""

    def __init__(self, id: int, prompt: list[int], most: int) -> None:
        self.id, self.prompt, self.most = id, prompt, most
        self.tokens: list[int] = []
        self.taken = 0
        self.finish = ""
        self.error: Exception | None = None
        self.replica: Replica | None = None
        self.moved = time.monotonic()

    @property
    def open(self) -> bool:
        return not self.finish and self.error is None


class Replica:
    """A core as the front end knows it."""

    def __init__(self, name: str, core: tuple[str, str], workers: int, block: int) -> None:
        self.name = name
        self.process, self.line = child("core", *core, workers, block)
        self.workers: list[int] = []
        self.ready = False
        self.heard = time.monotonic()


class Engine:
    """The front end: any thread may ask it, its own one turns the sockets."""

    core = ("socket_engine", "Core")

    def __init__(self, shape: EngineShape, timeout: float) -> None:
        self.shape = shape
        self.lock = threading.RLock()
        self.came = threading.Condition(self.lock)
        self.requests: dict[int, Request] = {}
        self.asked = 0
        self.closed = False
        self.gone: str = ""
        self.ear = selectors.DefaultSelector()
        self.replicas = [self.replica(f"core-{n}") for n in range(shape.data_parallel)]
        self.thread = threading.Thread(target=self.turn, daemon=True)
        self.thread.start()
        with self.came:
            there = self.came.wait_for(lambda: all(each.ready for each in self.replicas), timeout)
        if not there:
            self.stop()
            raise Failed("the replicas did not come in time")

    def replica(self, name: str) -> Replica:
        made = Replica(name, self.core, self.shape.tensor_parallel, self.shape.block_size)
        self.ear.register(made.line.sock, selectors.EVENT_READ, made)
        return made

    # -- what may be asked of it --------------------------------------------------------------

    def submit(self, prompt: Sequence[int], most: int) -> Request:
        if len(prompt) + most > self.shape.blocks * self.shape.block_size:
            raise Refused(f"{len(prompt)} tokens and {most} more never fit")
        with self.lock:
            self.asked += 1
            request = self.requests[self.asked] = Request(self.asked, [*prompt], most)
            self.place(request)
            return request

    def poll(self, request: Request) -> tuple[list[int], str] | None:
        with self.lock:
            new, request.taken = request.tokens[request.taken :], len(request.tokens)
            if not new and request.error is not None:
                raise request.error
            return (new, request.finish) if new or request.finish else None

    def cancel(self, request: Request) -> None:
        with self.lock:
            if request.open and request.replica is not None:
                self.tell(request.replica, "cancel", request.id)

    def health(self) -> tuple[bool, bool, bool, int]:
        """Alive, ready, progressing, and how many replicas are ready."""
        now = time.monotonic()
        with self.lock:
            ready = sum(self.is_ready(each) for each in self.replicas)
            open = [each for each in self.requests.values() if each.open]
            stuck = any(now - each.moved > STUCK for each in open)
            return self.thread.is_alive(), ready > 0, not stuck, ready

    def is_ready(self, replica: Replica) -> bool:
        return replica.ready

    def parts(self) -> dict[str, int]:
        with self.lock:
            found: dict[str, int] = {}
            for each in self.replicas:
                found[each.name] = each.process.pid
                found |= {f"{each.name}/worker-{n}": pid for n, pid in enumerate(each.workers)}
            return found

    def stop(self) -> None:
        with self.lock:
            self.closed = True
        self.thread.join()
        for each in self.replicas:
            self.end(each)
        for request in self.requests.values():
            if request.open:
                request.error = Closed("the engine was stopped")
        self.ear.close()

    # -- its thread ---------------------------------------------------------------------------

    def turn(self) -> None:
        while not self.closed:
            for ready, _ in self.ear.select(TICK):
                replica = ready.data
                try:
                    messages = replica.line.take()
                except OSError:
                    with self.lock:
                        self.lost(replica)
                    continue
                with self.lock:
                    for message in messages:
                        self.hear(replica, message)
            with self.lock:
                self.look_after()

    def hear(self, replica: Replica, message: list[Any]) -> None:
        replica.heard = time.monotonic()
        if message[0] == "ready":
            replica.workers, replica.ready = message[1], True
            self.came.notify_all()
            for request in self.requests.values():
                if request.open and request.replica is None:
                    self.place(request)
            return
        request = self.requests.get(message[1]) if message[0] != "beat" else None
        if request is None or request.replica is not replica or not request.open:
            return
        request.moved = time.monotonic()
        if message[0] == "token":
            request.tokens.append(message[2])
        else:
            request.finish = message[2]

    def look_after(self) -> None:
        for replica in self.replicas:
            if time.monotonic() - replica.heard > self.shape.step_timeout:
                self.lost(replica)

    def place(self, request: Request) -> None:
        """Have the least loaded replica begin it, or go on behind what was given."""
        there = [each for each in self.replicas if each.ready]
        request.replica = min(there, key=self.load, default=None)
        if request.replica is not None:
            left = request.most - len(request.tokens)
            self.tell(request.replica, "ask", request.id, self.begun(request), left)
        elif self.gone:
            request.error = Failed(self.gone)

    def begun(self, request: Request) -> list[int]:
        return request.prompt + request.tokens

    def load(self, replica: Replica) -> int:
        return sum(each.open and each.replica is replica for each in self.requests.values())

    def tell(self, replica: Replica, *message: Any) -> None:
        with contextlib.suppress(OSError):  # its end is heard of by the thread
            replica.line.put(*message)

    def lost(self, replica: Replica) -> None:
        """A replica is gone, or is to be: what it had goes elsewhere."""
        self.end(replica)
        status = replica.process.returncode
        cause = f"{replica.name} (pid {replica.process.pid}) ended with status {status}"
        self.replicas.remove(replica)
        if self.shape.restart:
            self.replicas.append(self.replica(replica.name))
        elif not self.replicas:
            self.gone = cause
        for request in self.requests.values():
            if request.open and request.replica is replica:
                self.again(request, cause)

    def again(self, request: Request, cause: str) -> None:
        """Of one that a dead replica had."""
        request.moved = time.monotonic()
        self.place(request)

    def end(self, replica: Replica) -> None:
        self.ear.unregister(replica.line.sock)
        replica.line.sock.close()
        replica.process.kill()  # its workers see their lines end
        replica.process.wait()
        replica.ready = False


class EngineTarget:
    """What killpoint is given: the calls of an engine, and three facts about it."""

    name = "socket_engine"
    version = "1"
    capabilities: frozenset[Capability] = frozenset(("engine",))
    preloads = ()
    engine: type[Engine] = Engine

    def load(self) -> None:
        """Importing this module has done it."""

    def engine_start(self, shape: EngineShape, timeout: float | None) -> Engine:
        if shape.prefill:
            from killpoint.targets.protocol import UnsupportedByTarget

            raise UnsupportedByTarget("no replicas that only prefill")
        return self.engine(shape, 30.0 if timeout is None else timeout)

    def engine_submit(self, end: Engine, prompt: Sequence[int], max_tokens: int) -> Request:
        return end.submit(prompt, max_tokens)

    def engine_poll(self, end: Engine, stream: Request) -> EnginePiece | None:
        from killpoint.targets.engine_protocol import EnginePiece

        found = end.poll(stream)
        return EnginePiece(*found) if found else None

    def engine_cancel(self, end: Engine, stream: Request) -> None:
        end.cancel(stream)

    def engine_health(self, end: Engine) -> EngineHealth:
        from killpoint.targets.engine_protocol import EngineHealth

        return EngineHealth(*end.health())

    def engine_parts(self, end: Engine) -> dict[str, int]:
        return end.parts()

    def engine_alone(
        self, shape: EngineShape, prompt: Sequence[int], max_tokens: int
    ) -> EnginePiece:
        from killpoint.targets.engine_protocol import EnginePiece

        return EnginePiece(*alone(prompt, max_tokens, shape.tensor_parallel))

    def engine_stop(self, end: Engine) -> None:
        end.stop()

    def classify(self, error: BaseException) -> Outcome:
        if isinstance(error, Refused):
            return "refused"
        if isinstance(error, Failed):
            return "peer-died"
        return "closed" if isinstance(error, Closed) else "error"


if __name__ == "__main__":
    main()
