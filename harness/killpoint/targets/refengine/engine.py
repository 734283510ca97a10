"""The reference's engine as a target (capability ``engine``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from killpoint.targets.engine_protocol import EngineHealth, EnginePiece, EngineShape
from refengine.engine import (
    Delta,
    Engine,
    EngineClosed,
    EngineFailed,
    EngineFull,
    RequestFailed,
    Stream,
)
from refengine.engine.model.reference import reference_generate
from refengine.engine.settings import EngineSettings

if TYPE_CHECKING:
    from killpoint.targets.protocol import Outcome

_STARTS_WITHIN = 60.0


class NotTaken(Exception):
    """A request that the engine refused."""


OUTCOMES: tuple[tuple[type[BaseException], Outcome], ...] = (
    (RequestFailed, "failed"),
    (EngineClosed, "closed"),
    (EngineFull, "refused"),
    (NotTaken, "refused"),
    (EngineFailed, "peer-died"),
)


class Tap:
    """News of one request, kept until it is asked for."""

    def __init__(self, stream: Stream) -> None:
        """Subscribe, from the first token on."""
        self.stream = stream
        self._news: deque[Delta | BaseException] = deque()
        stream.subscribe(self._news.append)

    def take(self) -> EnginePiece | None:
        """Return all that has come, or raise the error that ended it if that is all."""
        tokens: list[int] = []
        finish: str | None = None
        while self._news and isinstance(news := self._news[0], Delta):
            tokens += news.tokens
            finish = news.finish
            self._news.popleft()
        if tokens or finish:
            return EnginePiece(tokens, finish or "")
        if self._news and isinstance(error := self._news[0], BaseException):
            raise error
        return None


class EngineOfRefengine:
    """The part of the adapter that is about engines."""

    def engine_start(self, shape: EngineShape, timeout: float | None) -> Engine:
        """Start an engine; every replica is ready when this returns."""
        return Engine(
            EngineSettings(
                tensor_parallel=shape.tensor_parallel,
                data_parallel=shape.data_parallel,
                prefill=shape.prefill,
                device=shape.device,
                blocks=shape.blocks,
                block_size=shape.block_size,
                start_timeout=_STARTS_WITHIN if timeout is None else timeout,
                step_timeout=shape.step_timeout,
                restart=shape.restart,
            )
        )

    def engine_submit(self, end: Engine, prompt: Sequence[int], max_tokens: int) -> Tap:
        """Ask for tokens."""
        try:
            return Tap(end.submit(prompt, max_tokens))
        except ValueError as error:
            raise NotTaken(str(error)) from error

    def engine_submit_as(self, end: Engine, id: str, prompt: Sequence[int], max_tokens: int) -> Tap:
        """Ask for tokens by an id."""
        try:
            return Tap(end.submit(prompt, max_tokens, request_id=id))
        except ValueError as error:
            raise NotTaken(str(error)) from error

    def engine_poll(self, end: Engine, stream: Tap) -> EnginePiece | None:
        """Return what has come."""
        del end
        return stream.take()

    def engine_cancel(self, end: Engine, stream: Tap) -> None:
        """Cancel the request."""
        del end
        stream.stream.cancel()

    def engine_health(self, end: Engine) -> EngineHealth:
        """Return its three words, and the number of replicas that are ready."""
        told = end.health()
        ready = sum(each.state == "ready" for each in told.replicas)
        return EngineHealth(told.alive, told.ready, told.progressing, ready)

    def engine_parts(self, end: Engine) -> dict[str, int]:
        """Return its processes."""
        return end.parts()

    def engine_alone(
        self, shape: EngineShape, prompt: Sequence[int], max_tokens: int
    ) -> EnginePiece:
        """Return the tokens that the model gives by itself."""
        del shape
        tokens = reference_generate(prompt, max_tokens)
        return EnginePiece(tokens, "length" if len(tokens) == max_tokens else "stop")

    def engine_stop(self, end: Engine) -> None:
        """Close it."""
        end.close()
