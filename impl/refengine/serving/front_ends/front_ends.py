"""The front ends of a server, in processes of their own, around an engine in this one."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace

from ...base.fds import Fd
from ...clock import Clock, monotonic
from ...engine import Engine, EngineClosed, EngineFull
from ...engine.roster import Roster
from ...engine.settings import EngineSettings
from ...engine.stream import News, is_last
from ...malformed import Dropped, Malformed
from ...security import SocketFactory
from ..http_side import Asked
from ..server import address_of
from .handle import Handle
from .messages import (
    Cancel,
    Failed,
    FrontEndHealth,
    Made,
    Phase,
    Pulse,
    Ready,
    State,
    Submit,
    ToEngine,
    encode,
    to_engine,
)
from .process import Birth
from .totals import Totals

_log = logging.getLogger(__name__)
_PUSH = 0.25  # seconds between two states that are told
_STUCK = 2.0  # seconds without a sign of life, of which there are four a second
_UNTAKEN = 1 << 20  # bytes that a front end may leave untaken
_LEAVES = 2.0  # seconds for all front ends to leave by themselves


class FrontEnds:
    """One thread, which alone starts and ends them, and stands between them and the engine.

    See `HttpSide` for what is told to it, in which order.

    Args:
        ended: called when none is left, and none will come back.

    Raises:
        OSError: it cannot listen there.
    """

    def __init__(
        self,
        asked: Asked,
        settings: EngineSettings,
        idle: Callable[[], None],
        ended: Callable[[], None],
        clock: Clock = monotonic,
    ) -> None:
        self._asked, self._settings, self._clock = asked, settings, clock
        self._idle, self._ended = idle, ended
        self._listener = SocketFactory().listen_tcp(asked.host, asked.port)
        self.address = address_of(self._listener)
        names = [f"front-end-{number}" for number in range(asked.front_ends)]
        self._roster = Roster(names, restart=settings.restart, start_timeout=settings.start_timeout)
        self._handles: dict[str, Handle] = {}
        self._engine: Engine | None = None
        self._phase: Phase = "starting"
        self._cause = "the server ends"
        self._idle_told: Phase | None = None
        self._totals = Totals()
        self._news: deque[tuple[Handle, int, News]] = deque()
        self._dropped = Dropped(_log)
        self._bell = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._pushed = float("-inf")
        self._pushed_phase: Phase | None = None
        self._thread = threading.Thread(target=self._run, name="front ends", daemon=True)

    def start(self) -> None:
        """See `HttpSide`."""
        self._thread.start()

    def attach(self, engine: Engine) -> None:
        """See `HttpSide`."""
        self._engine = engine
        self._turn_to("serving")

    def parts(self) -> dict[str, int]:
        """See `HttpSide`."""
        return {name: handle.pid for name, handle in list(self._handles.items())}

    def drain(self) -> None:
        """See `HttpSide`."""
        self._turn_to("draining")

    def cut(self, cause: str) -> None:
        """See `HttpSide`."""
        self._cause = cause
        self._turn_to("cut")

    def stop(self) -> None:
        """See `HttpSide`."""
        self._turn_to("leaving")

    def close(self, seconds: float) -> None:
        """See `HttpSide`."""
        self._turn_to("leaving")
        if self._thread.ident is not None:
            self._thread.join(seconds + _LEAVES)
        self._listener.close()

    def _turn_to(self, phase: Phase) -> None:
        self._phase = phase
        self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._bell.fileno(), 1)

    def _came(self, handle: Handle, number: int, news: News) -> None:
        """On the engine's thread: more of a request."""
        self._news.append((handle, number, news))
        self._ring()

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._phase != "leaving":
                self._turn()
        except BaseException:
            _log.exception("the thread of the front ends has failed")
        finally:
            asked = self._phase == "leaving"
            with contextlib.suppress(Exception):
                self._end_all()
            if not asked:
                self._ended()

    def _turn(self) -> None:
        began = self._clock()
        for name in self._roster.late(began):
            self._lost(name, f"did not come to answer in {self._settings.start_timeout:g} s")
        for name in self._roster.due(began):
            self._start(name)
        self._push(began)
        ready = self._wait(min(_PUSH, max(0.0, self._roster.next() - began)))
        for handle in list(self._handles.values()):
            if handle.link.fileno() in ready:
                self._hear(handle)
            elif handle.sentinel in ready:
                self._lost(handle.name, handle.cause())
        self._hand_out()
        for handle in list(self._handles.values()):
            # As of before it was heard: this process may have been stopped itself.
            if handle.ready and began - handle.heard > self._settings.step_timeout:
                silent = f"{self._settings.step_timeout:g} s"
                self._lost(handle.name, f"gave no sign of life for {silent}, and was ended")
        self._look_whether_idle()

    def _wait(self, seconds: float) -> dict[int, int]:
        poller = select.poll()
        poller.register(self._bell.fileno(), select.POLLIN)
        for handle in self._handles.values():
            out = select.POLLOUT if handle.link.waiting else 0
            poller.register(handle.link.fileno(), select.POLLIN | out)
            poller.register(handle.sentinel, select.POLLIN)
        ready = dict(poller.poll(math.ceil(seconds * 1000)))
        if self._bell.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._bell.fileno())
        return ready

    def _start(self, name: str) -> None:
        now = self._clock()
        life = self._roster.started(name, now)
        asked = self._asked
        birth = Birth(name, life, os.getpid(), self._settings, asked.model, asked.key, asked.drain)
        try:
            self._handles[name] = Handle(birth, self._listener, now)
        except OSError as error:
            self._lost(name, f"could not be started: {error}")

    def _hear(self, handle: Handle) -> None:
        if handle.link.flush():
            handle.behind = False
        try:
            frames = handle.link.take()
        except EOFError:
            self._lost(handle.name, handle.cause())
            return
        for frame in frames:
            try:
                message = to_engine(frame)
            except Malformed:
                self._dropped.add(f"what came from {handle.name}")
                continue
            self._obey(handle, message)
        if frames:
            handle.heard = self._clock()

    def _obey(self, handle: Handle, message: ToEngine) -> None:
        match message:
            case Ready():
                handle.ready = True
                self._roster.serves(handle.name)
                self._pushed = float("-inf")
            case Submit():
                self._submit(handle, message)
            case Cancel(number):
                if number in handle.requests:
                    handle.requests[number].cancel()
            case Pulse(count, draining, samples):
                handle.open, handle.draining = count, draining
                if samples is not None:
                    self._totals.heard(handle.name, samples)

    def _submit(self, handle: Handle, asked: Submit) -> None:
        try:
            if self._engine is None:
                raise EngineClosed("submit")
            stream = self._engine.submit(asked.prompt, asked.max_tokens, request_id=asked.id)
        except (EngineFull, EngineClosed, ValueError) as error:
            self._send(handle, encode(Failed.of(asked.number, error)))
            return
        handle.requests[asked.number] = stream
        stream.subscribe(lambda news: self._came(handle, asked.number, news))

    def _hand_out(self) -> None:
        """What has come of requests, to whoever asked for them: one frame for each front end."""
        made: defaultdict[Handle, list[tuple[int, tuple[int, ...], str | None]]] = defaultdict(list)
        failed: list[tuple[Handle, Failed]] = []
        while self._news:
            handle, number, news = self._news.popleft()
            if number not in handle.requests:
                continue  # it has ended, or its front end has
            if is_last(news):
                del handle.requests[number]
            if isinstance(news, BaseException):
                failed.append((handle, Failed.of(number, news)))
            else:
                made[handle].append((number, news.tokens, news.finish))
        for handle, deltas in made.items():
            self._send(handle, encode(Made(tuple(deltas))))
        for handle, message in failed:
            self._send(handle, encode(message))

    def _send(self, handle: Handle, frame: bytes) -> None:
        """One that does not take what is sent holds nobody up: its requests are aborted."""
        handle.link.send(frame)
        if handle.link.waiting <= _UNTAKEN:
            return
        if handle.behind:
            self._lost(handle.name, "does not take its answers, and was ended")
            return
        handle.behind = True
        numbers = list(handle.requests)
        handle.abort()
        handle.link.drop()
        _log.warning("%s does not take its answers: %d aborted", handle.name, len(numbers))
        cause = f"{handle.name} did not take the tokens that had come for it"
        for number in numbers:
            handle.link.send(encode(Failed(number, "failed", cause=cause)))

    def _lost(self, name: str, cause: str) -> None:
        """One is gone, or of no use: what it asked for is cancelled, and it is started anew."""
        again = self._roster.ended(name, self._clock())
        _log.warning("%s %s; %s", name, cause, "it is started again" if again else "it stays away")
        self._totals.retire(name)
        self._pushed = float("-inf")  # the others are to say so at once
        handle = self._handles.pop(name, None)
        if handle is not None:
            handle.end()
        if not self._roster.has_any([*self._roster.parts]):
            self._ended()

    def _push(self, now: float) -> None:
        """How the whole server is, to those that have taken what they were told before."""
        if now < self._pushed + _PUSH and self._phase == self._pushed_phase:
            return
        self._pushed, self._pushed_phase = now, self._phase
        frame = encode(self._state(now))
        for handle in self._handles.values():
            if not handle.link.waiting:
                handle.link.send(frame)

    def _state(self, now: float) -> State:
        engine, health, counts = self._engine, None, None
        if engine is not None:
            health, counts = engine.health(), engine.counts()
            restarts = {part.name: part.restarts for part in self._roster.parts.values()}
            counts = replace(counts, restarts=counts.restarts | restarts)
        front_ends = tuple(self._health(name, now) for name in self._roster.parts)
        samples = self._totals.samples()
        return State(self._phase, self._cause, health, counts, front_ends, samples)

    def _health(self, name: str, now: float) -> FrontEndHealth:
        handle = self._handles.get(name)
        if handle is None:
            coming = self._roster.has_any([name])
            return FrontEndHealth(name, 0, "starting" if coming else "dead", 0)
        if not handle.ready:
            return FrontEndHealth(name, handle.pid, "starting", 0)
        stuck = now - handle.heard > _STUCK
        return FrontEndHealth(name, handle.pid, "stuck" if stuck else "ready", handle.open)

    def _look_whether_idle(self) -> None:
        """Once in each phase: every front end drains, and none has anything open."""
        ready = [handle for handle in self._handles.values() if handle.ready]
        idle = all(each.draining and not each.open and not each.requests for each in ready)
        if self._phase in ("draining", "cut") and idle and self._idle_told != self._phase:
            self._idle_told = self._phase
            self._idle()

    def _end_all(self) -> None:
        """All at once; one that has not left by itself in time is killed."""
        self._phase = "leaving"
        self._push(self._clock())
        end = self._clock() + _LEAVES
        for handle in list(self._handles.values()):
            with contextlib.suppress(Exception):
                handle.end(max(0.0, end - self._clock()) if handle.ready else 0.0)
