"""The engine for a front end: in another process, whose last reported state it keeps."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...base.clock import Clock, monotonic
from ...engine import Delta, EngineClosed, EngineCounts, EngineFull, EngineSilent, Health, Stream
from ...engine.front_end import router
from ...engine.front_end.streams import StreamEvent, is_last
from ...engine.settings import EngineSettings
from .protocol import Cancel, Failed, Outputs, State, Submit

_SILENT = 3.0  # seconds without a state, of which there are several a second: its health is unknown
_GIVEN_UP = 15.0  # seconds without a state until open requests end with an error (SPEC E1)


class RemoteEngine:
    """A `ServedEngine`. Any thread may use it; one passes it the received messages.

    Args:
        settings: of the engine.
        send: sends to the engine's process; returns False if it takes no more now.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        settings: EngineSettings,
        send: Callable[[Submit | Cancel], bool],
        clock: Clock = monotonic,
    ) -> None:
        self._settings, self._send, self._clock = settings, send, clock
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        self._heard = clock()
        self.state = State("starting", "", None, None, (), ())

    @property
    def silent(self) -> float:
        """Seconds since the last message of the engine's process."""
        return self._clock() - self._heard

    def submit(
        self, prompt: Sequence[int], max_tokens: int = 16, *, request_id: str | None = None
    ) -> Stream:
        """See `Engine.submit`; EngineFull and EngineClosed may come as the stream's end.

        Raises:
            EngineSilent: the engine's state is unknown.
            EngineFull: it has not read earlier submissions.
            ValueError: the request can never be served.
        """
        router.check_servable(self._settings, prompt, max_tokens)
        if (silent := self.silent) > _SILENT:
            raise EngineSilent(silent)
        number = next(self._numbers)
        name = f"request-{number}" if request_id is None else request_id
        stream = Stream(name, lambda: self._cancel(number))
        with self._lock:
            self._streams[number] = stream
        if not self._send(Submit(number, name, tuple(prompt), max_tokens)):
            self._put(number, EngineFull(len(self._streams), len(self._streams)))
        return stream

    def health(self) -> Health:
        """Return the health reported last; it is not alive if that was too long ago (SPEC E4)."""
        health = self.state.health or Health(alive=True, ready=False, progressing=True)
        if self.silent > _SILENT:
            return replace(health, alive=False, ready=False, progressing=False)
        return health

    def counts(self) -> EngineCounts:
        """Return the counts reported last."""
        counts = self.state.counts
        if counts is None:
            return EngineCounts({}, 0, 0, 0, 0, {}, {}, {}, {})
        return counts

    def receive(self, message: Outputs | Failed | State) -> None:
        """Take a message of the engine's process."""
        self._heard = self._clock()
        match message:
            case State():
                self.state = message
            case Outputs(deltas):
                for number, tokens, finish in deltas:
                    self._put(number, Delta(tokens, finish))
            case Failed(number):
                stream = self._streams.get(number)
                if stream is not None:
                    self._put(number, message.error(stream.request_id))

    def tick(self) -> None:
        """End open requests if the engine has been silent for too long."""
        if (silent := self.silent) > _GIVEN_UP:
            self._end(EngineSilent(silent))

    def close(self) -> None:
        """End open requests."""
        self._end(EngineClosed("the front end"))

    def _cancel(self, number: int) -> None:
        if number in self._streams:
            self._send(Cancel(number))

    def _end(self, error: BaseException) -> None:
        with self._lock:
            numbers = list(self._streams)
        for number in numbers:
            self._send(Cancel(number))
            self._put(number, error)

    def _put(self, number: int, event: StreamEvent) -> None:
        with self._lock:
            stream = self._streams.get(number)
            if is_last(event):
                self._streams.pop(number, None)
        if stream is not None:
            stream.put(event)
