"""Engines of real processes, steady load on them, and what they leave behind."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from refengine.engine import Delta, Engine, RequestFailed
from refengine.engine.model.reference import reference_generate
from refengine.engine.model.tokens import encode
from refengine.engine.settings import EngineSettings

from ..roles import leftovers

PROMPTS = tuple(tuple(encode(text)) for text in ("a", "hello world", "k" * 40, "täuschend"))
TOKENS = 24
PATIENCE = 60.0
"""Seconds that a busy machine may take for anything at all."""


@functools.cache
def expected(prompt: tuple[int, ...], tokens: int = TOKENS) -> tuple[int, ...]:
    """What the model run alone gives."""
    return tuple(reference_generate(prompt, tokens, EngineSettings().size))


def engine(**given: Any) -> Engine:
    return Engine(EngineSettings(**({"start_timeout": PATIENCE} | given)))


class Load:
    """So many requests at a time, until it is told to stop; each must have the right tokens."""

    def __init__(self, engine: Engine, at_once: int = 4) -> None:
        self.engine = engine
        self.right = 0
        self.wrong: list[Any] = []
        self._stopping = False
        self._number = 0
        self._open = at_once
        self._ended = threading.Event()
        for _ in range(at_once):
            self._submit()

    def _submit(self) -> None:
        self._number += 1
        prompt = PROMPTS[self._number % len(PROMPTS)]
        tokens: list[int] = []

        def hear(news: Delta | BaseException) -> None:
            if isinstance(news, Delta):
                tokens.extend(news.tokens)
                if news.finish is None:
                    return
                if tuple(tokens) == expected(prompt):
                    self.right += 1
                else:
                    self.wrong.append((prompt, tokens))
            else:
                self.wrong.append(news)
            self._next()

        self.engine.submit(prompt, TOKENS).subscribe(hear)

    def _next(self) -> None:
        if not self._stopping:
            self._submit()
            return
        self._open -= 1
        if not self._open:
            self._ended.set()

    def await_more(self, count: int = 5) -> None:
        """Until so many more have ended."""
        until(lambda goal=self.right + count: self.wrong or self.right >= goal, PATIENCE)
        assert self.wrong == []

    def __enter__(self) -> Load:
        for prompt in PROMPTS:
            expected(prompt)
        return self

    def __exit__(self, *exc: object) -> None:
        """All that are open end, with the right tokens."""
        self._stopping = True
        ended = self._ended.wait(PATIENCE)
        if exc[0] is None:
            assert ended, f"requests that never end: {self.engine.health()}"
            assert self.wrong == []


def kill(engine: Engine, part: str, number: int = signal.SIGKILL) -> int:
    pid = engine.parts()[part]
    os.kill(pid, number)
    return pid


def is_back(engine: Engine, part: str, old: int = 0) -> bool:
    """A process is there, another one than before, and its replica is ready."""
    replica = part.split("/")[0]
    ready = [each.name for each in engine.health().replicas if each.state == "ready"]
    return engine.parts().get(part, old) != old and replica in (*ready, "coordinator")


def until(condition: Callable[[], Any], seconds: float) -> Any:
    """Look now and then until it is true; the processor is for the engine."""
    end, pause = time.monotonic() + seconds, threading.Event()
    while not (found := condition()):
        assert time.monotonic() < end, "it did not become true in time"
        pause.wait(0.01)
    return found


def gone(pids: Any, seconds: float = 5.0) -> None:
    """Wait until none of them runs; a zombie is still there."""
    until(lambda: not [pid for pid in pids if Path(f"/proc/{pid}").exists()], seconds)


def nothing_is_left(pids: Any) -> None:
    """L1 for these processes."""
    gone(pids)
    until(lambda: not [path for pid in pids for path in leftovers(pid)], 5.0)


__all__ = [
    "PATIENCE",
    "PROMPTS",
    "Load",
    "RequestFailed",
    "engine",
    "expected",
    "gone",
    "is_back",
    "kill",
    "nothing_is_left",
    "until",
]
