"""An engine without processes: it says what a test has it say, when the test has it said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from refengine.engine import (
    Delta,
    EngineClosed,
    EngineCounts,
    EngineFailed,
    EngineFull,
    Health,
    ReplicaHealth,
    Stream,
)
from refengine.engine.settings import EngineSettings

Script = Callable[[tuple[int, ...]], Sequence[int]]
WELL = Health(True, True, True, (ReplicaHealth("core-0", 7, "ready", 1, 2, 0.5),))


class FakeEngine:
    """With a script each request is answered at once, a token at a time; else the test `put`s."""

    def __init__(
        self,
        settings: EngineSettings | None = None,
        *,
        script: Script | None = None,
        most: int = 1 << 20,
    ) -> None:
        self.settings = settings or EngineSettings()
        self.streams: dict[str, Stream] = {}
        self.prompts: list[tuple[int, ...]] = []
        self.cancelled: list[str] = []
        self.closed = False
        self.says = WELL
        self.failed: EngineFailed | None = None
        self._script, self._most = script, most

    def submit(
        self, prompt: Sequence[int], max_tokens: int = 16, *, request_id: str | None = None
    ) -> Stream:
        if self.closed:
            raise EngineClosed("submit")
        if len(self.prompts) == self._most:
            raise EngineFull(self._most, self._most)
        if any(not 0 <= token < 256 for token in prompt):
            raise ValueError("a token is from 0 to 255")
        name = request_id or f"request-{len(self.prompts)}"
        self.prompts.append(tuple(prompt))
        stream = self.streams[name] = Stream(name, lambda: self._cancel(name))
        if self._script is not None:
            tokens = self._script(tuple(prompt))
            for token in tokens[:max_tokens]:
                stream.put(Delta((token,)))
            stream.put(Delta((), "stop" if len(tokens) < max_tokens else "length"))
        return stream

    def _cancel(self, name: str) -> None:
        self.cancelled.append(name)
        self.streams[name].put(Delta((), "cancelled"))

    def health(self) -> Health:
        return self.says

    def counts(self) -> EngineCounts:
        return EngineCounts(
            requests={"stop": 3, "failed": 1},
            open=2,
            prompt_tokens=40,
            tokens=50,
            retries=4,
            restarts={"core-0": 5},
            waiting={"core-0": 1},
            running={"core-0": 2},
            steps={"core-0": 60},
            wave=6,
        )

    def failure(self) -> EngineFailed | None:
        return self.failed

    def parts(self) -> dict[str, int]:
        return {"core-0": 7, "core-0/worker-0": 8}

    def close(self) -> None:
        self.closed = True
        for stream in self.streams.values():
            stream.put(EngineClosed("submit"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def spelled(text: str | bytes) -> Script:
    """Each prompt is answered by this."""
    return lambda _: list(text.encode() if isinstance(text, str) else text)
