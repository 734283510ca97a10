"""The engine's public class: submit prompts, take tokens, query health, close it (SPEC 8)."""

import itertools
import os
from collections.abc import Sequence
from multiprocessing.util import Finalize
from typing import Protocol, Self

from ..errors import ForkedCopy
from .errors import EngineClosed, EngineFailed
from .front_end import router
from .front_end.request_tracker import RequestTracker
from .front_end.streams import Stream
from .front_end.thread import FrontEndThread
from .health import EngineCounts, Health
from .settings import EngineSettings
from .supervisor.supervisor import Supervisor


class ServedEngine(Protocol):
    """Interface that a server needs of an engine, which may be in another process."""

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
        self._front_end = front_end = FrontEndThread(
            RequestTracker(self._settings), supervisor.drop_replica
        )
        self._finalizer = Finalize(
            self, _close, (front_end, supervisor, self._pid), exitpriority=40
        )
        try:
            front_end.start()
            supervisor.start(front_end)
        except BaseException:
            self.close()
            raise

    @property
    def settings(self) -> EngineSettings:
        """Settings that it was made with."""
        return self._settings

    def submit(
        self, prompt: Sequence[int], max_tokens: int = 16, *, request_id: str | None = None
    ) -> Stream:
        """Continue these tokens with the model: greedy, until END or `max_tokens` tokens.

        Raises:
            EngineFull: too many requests wait.
            EngineClosed: the engine is closed.
            ValueError: the prompt is empty, has an invalid token, or can never fit; or the
                request's id is in use.
        """
        self._check("submit")
        router.check_servable(self._settings, prompt, max_tokens)
        name = f"request-{next(self._numbers)}" if request_id is None else request_id
        front_end = self._front_end
        stream = Stream(name, lambda: front_end.cancel(stream))
        front_end.open(stream, lambda tracker, now: tracker.submit(name, prompt, max_tokens, now))
        return stream

    def health(self) -> Health:
        """Return the health as it is known, at once."""
        alive = self._front_end.alive and self._supervisor.alive
        return self._front_end.ask(lambda tracker, now: tracker.health(now, alive=alive))

    def counts(self) -> EngineCounts:
        """Return the counts as they are known, at once."""
        restarts, wave = self._supervisor.restarts(), self._front_end.wave
        return self._front_end.ask(lambda tracker, _: tracker.counts(restarts, wave))

    def failure(self) -> EngineFailed | None:
        """Return why it will never serve again; None if it serves, or may serve again."""
        if self._front_end.has_failed:
            return EngineFailed("the front end", "its thread has ended")
        return self._supervisor.failure

    def parts(self) -> dict[str, int]:
        """Return live process ids by name: coordinator, core-0, core-0/worker-0, prefill-0."""
        return self._supervisor.pids()

    def close(self) -> None:
        """End all processes. Idempotent. Open requests end with EngineClosed."""
        _close(self._front_end, self._supervisor, self._pid)
        self._finalizer.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check(self, operation: str) -> None:
        if os.getpid() != self._pid:
            raise ForkedCopy(self._pid, "engine")
        if self._front_end.closed:
            raise EngineClosed(operation)


def _close(front_end: FrontEndThread, supervisor: Supervisor, pid: int) -> None:
    if os.getpid() == pid:
        front_end.close()
        supervisor.close()
