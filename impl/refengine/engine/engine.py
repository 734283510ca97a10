"""The engine's face: submit prompts, take tokens, ask how it is, close it (SPEC 8)."""

import itertools
import os
from collections.abc import Sequence
from multiprocessing.util import Finalize
from typing import Protocol, Self

from ..errors import ForkedCopy
from . import admission
from .desk import Desk
from .errors import EngineClosed, EngineFailed
from .front_end import FrontEnd
from .health import EngineCounts, Health
from .settings import EngineSettings
from .stream import Stream
from .supervisor import Supervisor


class ServedEngine(Protocol):
    """What a server needs of an engine, which may be in another process."""

    def submit(
        self, prompt: Sequence[int], max_tokens: int = 16, *, request_id: str | None = None
    ) -> Stream:
        """See `Engine.submit`; a refusal may come as the stream's end instead."""
        ...

    def health(self) -> Health:
        """See `Engine.health`."""
        ...

    def counts(self) -> EngineCounts:
        """See `Engine.counts`."""
        ...


class Engine:
    """Data-parallel replicas, each a core with its tensor-parallel workers, behind one front end.

    Returns once every replica is ready. However this object ends, by `close`, garbage collection,
    interpreter exit or SIGKILL, every process of it ends, and nothing is left behind (SPEC L1).

    Raises:
        EngineFailed: which part did not start, and why.
    """

    def __init__(self, settings: EngineSettings | None = None) -> None:
        self._settings = settings or EngineSettings()
        self._pid = os.getpid()
        self._numbers = itertools.count(1)
        self._supervisor = supervisor = Supervisor(self._settings)
        self._desk = desk = Desk(FrontEnd(self._settings), supervisor.evict)
        self._finalizer = Finalize(self, _close, (desk, supervisor, self._pid), exitpriority=40)
        try:
            desk.start()
            supervisor.start(desk)
        except BaseException:
            self.close()
            raise

    @property
    def settings(self) -> EngineSettings:
        """As it was made with."""
        return self._settings

    def submit(
        self, prompt: Sequence[int], max_tokens: int = 16, *, request_id: str | None = None
    ) -> Stream:
        """Have the model go on from these tokens; greedy, until END or so many tokens.

        Raises:
            EngineFull: too many requests wait.
            EngineClosed: it is closed.
            ValueError: the prompt is empty, has a token that is none, or can never fit; the
                request's id is in use.
        """
        self._check("submit")
        admission.check(self._settings, prompt, max_tokens)
        name = f"request-{next(self._numbers)}" if request_id is None else request_id
        desk = self._desk
        stream = Stream(name, lambda: desk.do(lambda book, _: book.cancel(name)))
        desk.open(stream, lambda book, now: book.submit(name, prompt, max_tokens, now))
        return stream

    def health(self) -> Health:
        """At once, from what is known."""
        alive = self._desk.alive and self._supervisor.alive
        return self._desk.ask(lambda book, now: book.health(now, alive=alive))

    def counts(self) -> EngineCounts:
        """What it has done, at once."""
        restarts, wave = self._supervisor.restarts(), self._desk.wave
        return self._desk.ask(lambda book, _: book.counts(restarts, wave))

    def failure(self) -> EngineFailed | None:
        """Why it will never serve again; None: it can, or may yet be able to."""
        if self._desk.has_failed:
            return EngineFailed("the front end", "its thread has ended")
        return self._supervisor.failure

    def parts(self) -> dict[str, int]:
        """The live processes by name: coordinator, core-0, core-0/worker-0, prefill-0 and so on."""
        return self._supervisor.pids()

    def close(self) -> None:
        """End it all; idempotent. Open requests end with EngineClosed."""
        _close(self._desk, self._supervisor, self._pid)
        self._finalizer.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check(self, operation: str) -> None:
        if os.getpid() != self._pid:
            raise ForkedCopy(self._pid, "engine")
        if self._desk.closed:
            raise EngineClosed(operation)


def _close(desk: Desk, supervisor: Supervisor, pid: int) -> None:
    if os.getpid() == pid:
        desk.close()
        supervisor.close()
