"""The front ends of a server, in processes of their own, around an engine in this one."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace

from ...base.cleanup import ServingThread
from ...base.clock import Clock, monotonic
from ...base.fds import Fd
from ...base.frame_decoding import DropCounter, Malformed
from ...base.security import SocketFactory
from ...engine import Engine, EngineClosed, EngineFull
from ...engine.front_end.streams import StreamEvent, is_last
from ...engine.settings import EngineSettings
from ...engine.supervisor.restart_policy import RestartPolicy
from ..http_side import ServeOptions
from ..metrics import MetricTotals
from ..server import address_of
from .handle import FrontEndHandle
from .process import FrontEndInit
from .protocol import (
    Cancel,
    Failed,
    FrontEndHealth,
    Heartbeat,
    Outputs,
    Phase,
    Ready,
    State,
    Submit,
    ToEngine,
    decode_to_engine,
    decode_to_front_end,
    encode,
)

_log = logging.getLogger(__name__)
_PUSH = 0.25  # seconds between two states sent to front ends
_STUCK = 2.0  # seconds without a heartbeat, of which there are four a second
_UNTAKEN = 1 << 20  # bytes that a front end may leave unread
_LEAVES = 2.0  # seconds for all front ends to exit by themselves


class FrontEnds:
    """One thread that alone starts and ends front ends, and connects them with the engine.

    It is an `HttpSide`, whose methods are called in that order.

    Args:
        ended: called when no front end is left, and none will be restarted.

    Raises:
        OSError: it cannot listen there.
    """

    def __init__(
        self,
        options: ServeOptions,
        settings: EngineSettings,
        idle: Callable[[], None],
        ended: Callable[[], None],
        clock: Clock = monotonic,
    ) -> None:
        self._options, self._settings, self._clock = options, settings, clock
        self._idle, self._ended = idle, ended
        self._listener = SocketFactory().listen_tcp(options.host, options.port)
        self.address = address_of(self._listener)
        names = [f"front-end-{number}" for number in range(options.front_ends)]
        self._restart_policy = RestartPolicy(
            names, restart=settings.restart, start_timeout=settings.start_timeout
        )
        self._handles: dict[str, FrontEndHandle] = {}
        self._engine: Engine | None = None
        self._phase: Phase = "starting"
        self._cause = "the server ends"
        self._idle_told: Phase | None = None
        self._totals = MetricTotals()
        self._events: deque[tuple[FrontEndHandle, int, StreamEvent]] = deque()
        self._dropped = DropCounter(_log)
        self._wakeup = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._pushed_at = float("-inf")
        self._pushed_phase: Phase | None = None
        self._thread = ServingThread(self._run, name="front ends")

    def start(self) -> None:
        """See `HttpSide`."""
        self._thread.start()

    def attach(self, engine: Engine) -> None:
        """See `HttpSide`."""
        self._engine = engine
        self._enter_phase("serving")

    def parts(self) -> dict[str, int]:
        """See `HttpSide`."""
        return {name: handle.pid for name, handle in list(self._handles.items())}

    def drain(self) -> None:
        """See `HttpSide`."""
        self._enter_phase("draining")

    def cut(self, cause: str) -> None:
        """See `HttpSide`."""
        self._cause = cause
        self._enter_phase("cut")

    def stop(self) -> None:
        """See `HttpSide`."""
        self._enter_phase("leaving")

    def close(self, seconds: float) -> None:
        """See `HttpSide`."""
        self._enter_phase("leaving")
        if not self._thread.prevent():
            self._thread.join(seconds + _LEAVES)
        self._listener.close()

    def _enter_phase(self, phase: Phase) -> None:
        self._phase = phase
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._wakeup.fileno(), 1)

    def _on_event(self, handle: FrontEndHandle, number: int, event: StreamEvent) -> None:
        """Queue an event of a request; on the engine's thread."""
        self._events.append((handle, number, event))
        self._wake()

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._phase != "leaving":
                self._turn()
        except BaseException:
            _log.exception("the thread of the front ends has failed")
        finally:
            leaving = self._phase == "leaving"
            with contextlib.suppress(Exception):
                self._end_all()
            if not leaving:
                self._ended()

    def _turn(self) -> None:
        began = self._clock()
        for name in self._restart_policy.late(began):
            self._lost(name, f"did not come to answer in {self._settings.start_timeout:g} s")
        for name in self._restart_policy.due(began):
            self._start(name)
        self._push(began)
        ready = self._wait(min(_PUSH, max(0.0, self._restart_policy.next() - began)))
        for handle in list(self._handles.values()):
            if handle.link.fileno() in ready:
                self._receive(handle)
            elif handle.sentinel in ready:
                self._lost(handle.name, handle.cause())
        self._deliver()
        for handle in list(self._handles.values()):
            # Against the time before messages were read: this process may have been stopped.
            if handle.ready and began - handle.heard > self._settings.step_timeout:
                silent = f"{self._settings.step_timeout:g} s"
                self._lost(handle.name, f"gave no sign of life for {silent}, and was ended")
        self._check_idle()

    def _wait(self, seconds: float) -> dict[int, int]:
        poller = select.poll()
        poller.register(self._wakeup.fileno(), select.POLLIN)
        for handle in self._handles.values():
            out = select.POLLOUT if handle.link.waiting else 0
            poller.register(handle.link.fileno(), select.POLLIN | out)
            poller.register(handle.sentinel, select.POLLIN)
        ready = dict(poller.poll(math.ceil(seconds * 1000)))
        if self._wakeup.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wakeup.fileno())
        return ready

    def _start(self, name: str) -> None:
        now = self._clock()
        life = self._restart_policy.started(name, now)
        options = self._options
        init = FrontEndInit(
            name, life, os.getpid(), self._settings, options.model, options.key, options.drain
        )
        try:
            self._handles[name] = FrontEndHandle(init, self._listener, now)
        except OSError as error:
            self._lost(name, f"could not be started: {error}")

    def _receive(self, handle: FrontEndHandle) -> None:
        if handle.link.flush():
            handle.behind = False
        try:
            frames = handle.link.take()
        except EOFError:
            self._lost(handle.name, handle.cause())
            return
        for frame in frames:
            try:
                message = decode_to_engine(frame)
            except Malformed:
                self._dropped.add(f"what came from {handle.name}")
                continue
            self._on_message(handle, message)
        if frames:
            handle.heard = self._clock()

    def _on_message(self, handle: FrontEndHandle, message: ToEngine) -> None:
        match message:
            case Ready():
                handle.ready = True
                self._restart_policy.serves(handle.name)
                self._pushed_at = float("-inf")
            case Submit():
                self._submit(handle, message)
            case Cancel(number):
                if number in handle.requests:
                    handle.requests[number].cancel()
            case Heartbeat(count, draining, samples):
                handle.open, handle.draining = count, draining
                if samples is not None:
                    self._totals.update(handle.name, samples)

    def _submit(self, handle: FrontEndHandle, request: Submit) -> None:
        try:
            if self._engine is None:
                raise EngineClosed("submit")
            stream = self._engine.submit(request.prompt, request.max_tokens, request_id=request.id)
        except (EngineFull, EngineClosed, ValueError) as error:
            self._send(handle, encode(Failed.of(request.number, error)))
            return
        handle.requests[request.number] = stream
        stream.subscribe(lambda event: self._on_event(handle, request.number, event))

    def _deliver(self) -> None:
        """Send the requests' events to their front ends, in one frame each."""
        outputs: defaultdict[FrontEndHandle, list[tuple[int, tuple[int, ...], str | None]]] = (
            defaultdict(list)
        )
        failed: list[tuple[FrontEndHandle, Failed]] = []
        while self._events:
            handle, number, event = self._events.popleft()
            if number not in handle.requests:
                continue  # the request has ended, or its front end has
            if is_last(event):
                del handle.requests[number]
            if isinstance(event, BaseException):
                failed.append((handle, Failed.of(number, event)))
            else:
                outputs[handle].append((number, event.tokens, event.finish))
        for handle, deltas in outputs.items():
            self._send(handle, encode(Outputs(tuple(deltas))))
        for handle, message in failed:
            self._send(handle, encode(message))

    def _send(self, handle: FrontEndHandle, frame: bytes) -> None:
        """Send a frame; to bound the backlog, abort the requests of one that does not read."""
        handle.link.send(frame)
        if handle.link.waiting <= _UNTAKEN:
            return
        if handle.behind:
            self._lost(handle.name, "does not take its answers, and was ended")
            return
        handle.behind = True
        numbers = list(handle.requests)
        handle.abort()
        _log.warning("%s does not take its answers: %d aborted", handle.name, len(numbers))
        cause = f"{handle.name} did not take the tokens that had come for it"
        for dropped in handle.link.drop():
            match decode_to_front_end(dropped):
                case Failed():
                    handle.link.send(dropped)
                case Outputs(deltas):  # those that ended in them are no longer among its requests
                    numbers += [number for number, _, finish in deltas if finish is not None]
                case State():
                    pass
        for number in numbers:
            handle.link.send(encode(Failed(number, "failed", cause=cause)))

    def _lost(self, name: str, cause: str) -> None:
        """End a front end that is gone or useless: cancel its requests, and restart it."""
        again = self._restart_policy.ended(name, self._clock())
        _log.warning("%s %s; %s", name, cause, "it is started again" if again else "it stays away")
        self._totals.retire(name)
        self._pushed_at = float("-inf")  # so that the others report it at once
        handle = self._handles.pop(name, None)
        if handle is not None:
            handle.end()
        if not self._restart_policy.has_any([*self._restart_policy.parts]):
            self._ended()

    def _push(self, now: float) -> None:
        """Send the server's state to the front ends that have read the earlier ones."""
        if now < self._pushed_at + _PUSH and self._phase == self._pushed_phase:
            return
        self._pushed_at, self._pushed_phase = now, self._phase
        frame = encode(self._state(now))
        for handle in self._handles.values():
            if not handle.link.waiting:
                handle.link.send(frame)

    def _state(self, now: float) -> State:
        engine, health, counts = self._engine, None, None
        if engine is not None:
            health, counts = engine.health(), engine.counts()
            restarts = {part.name: part.restarts for part in self._restart_policy.parts.values()}
            counts = replace(counts, restarts=counts.restarts | restarts)
        front_ends = tuple(self._health(name, now) for name in self._restart_policy.parts)
        samples = self._totals.samples()
        return State(self._phase, self._cause, health, counts, front_ends, samples)

    def _health(self, name: str, now: float) -> FrontEndHealth:
        handle = self._handles.get(name)
        if handle is None:
            coming = self._restart_policy.has_any([name])
            return FrontEndHealth(name, 0, "starting" if coming else "dead", 0)
        if not handle.ready:
            return FrontEndHealth(name, handle.pid, "starting", 0)
        stuck = now - handle.heard > _STUCK
        return FrontEndHealth(name, handle.pid, "stuck" if stuck else "ready", handle.open)

    def _check_idle(self) -> None:
        """Call `idle`, once per phase, when every front end drains and has no open request."""
        ready = [handle for handle in self._handles.values() if handle.ready]
        idle = all(each.draining and not each.open and not each.requests for each in ready)
        if self._phase in ("draining", "cut") and idle and self._idle_told != self._phase:
            self._idle_told = self._phase
            self._idle()

    def _end_all(self) -> None:
        """End all at once; kill those that do not exit by themselves in time."""
        self._phase = "leaving"
        self._push(self._clock())
        end = self._clock() + _LEAVES
        for handle in list(self._handles.values()):
            with contextlib.suppress(Exception):
                handle.end(max(0.0, end - self._clock()) if handle.ready else 0.0)
