"""Thread that keeps an engine under load: it submits requests, polls tokens, and checks its health.

It logs ``request``, ``first`` at its first token, and ``answer`` with its outcome, finish, tokens'
count and digest, the error's text and the seconds ``s`` since it was submitted; ``cancelled`` when
one is cancelled. At each look it logs ``looked``: the engine's own health, the number of tokens so
far, the number of open requests, and the longest time that one has waited for its next token.
``parts`` has the engine's processes, whenever they change.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from typing import Any

from killpoint.history.log import Log
from killpoint.runner.observe.diagnosis import state
from killpoint.scenario import Load
from killpoint.systems.engine.load import EngineRequest, asked, different, digest
from killpoint.targets.engine_protocol import EngineHealth, EnginePiece, EngineShape, HasEngine

_TICK = 0.005
_COME_WITHIN = 3.0
_TEXT = 600
"""Characters of an error's text that are kept."""


class _Open:
    """A request that has not ended."""

    def __init__(self, n: int, what: EngineRequest, now: float) -> None:
        self.n, self.what = n, what
        self.asked = self.moved = now
        self.stream: Any = None
        self.tokens: list[int] = []
        self.cancelled = False


class LoadThread:
    """Keeps one engine busy from its start until it is told that that is enough."""

    def __init__(
        self,
        target: HasEngine,
        end: Any,
        load: Load,
        shape: EngineShape,
        seed: int,
        log: Log,
        *,
        word: Callable[[Exception], str],
        tell: Callable[[dict[str, int]], None],
    ) -> None:
        """``word``: returns an error's outcome; ``tell``: called with parts that have changed."""
        self._target, self._end, self._load, self._shape = target, end, load, shape
        self._seed, self._log = seed, log
        self._word, self._tell = word, tell
        self.known = different(load, shape, seed)
        self.broken: Exception | None = None
        """Error that ended its thread early."""
        self._open: list[_Open] = []
        self._tokens = self._asked = 0
        self._enough = threading.Event()
        self._leave = threading.Event()
        self._parts: dict[str, int] = {}
        self._first: frozenset[str] = frozenset()
        self._most = 0
        self._health: EngineHealth | None = None
        self._looks = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Take the first look at the engine, then start the thread."""
        self._look()
        self._first = frozenset(self._parts)
        self._most = self._health.replicas if self._health else 0
        self._thread.start()

    def serve(self, seconds: float, coming: int) -> None:
        """Let the load go on, and then until so many requests have begun to arrive."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._thread.is_alive():
            select.select([], [], [], min(left, 0.05))
        while sum(bool(one.tokens) for one in list(self._open)) < coming:
            if time.monotonic() > end + _COME_WITHIN or not self._thread.is_alive():
                return
            select.select([], [], [], _TICK / 5)

    def recover(self, within: float) -> bool:
        """Let the load go on until everything is there again; return whether it is, in time."""
        end, since = time.monotonic() + within, self._looks
        while time.monotonic() < end and self._thread.is_alive():
            if self._looks > since + 1 and self._whole():
                return True
            select.select([], [], [], _TICK)
        return False

    def calm(self, within: float) -> bool:
        """Submit no more requests; return whether all open ones have ended in time."""
        self._enough.set()
        end = time.monotonic() + within
        while self._open and time.monotonic() < end and self._thread.is_alive():
            select.select([], [], [], _TICK)
        return not self._open

    def halt(self) -> None:
        """End the thread: another thread is about to stop the engine."""
        self._enough.set()
        self._leave.set()
        if self._thread.is_alive():
            self._thread.join()

    def drain(self, within: float) -> None:
        """Take the remaining answers of open requests after the engine's stop."""
        end = time.monotonic() + within
        while self._open and time.monotonic() < end:
            self._take()
            select.select([], [], [], _TICK)

    # -- its thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._turn()
        except Exception as error:  # raised to the role by its next order
            self.broken = error

    def _turn(self) -> None:
        due = look = time.monotonic()
        while not self._leave.is_set():
            now = time.monotonic()
            while now >= due and not self._enough.is_set():
                for _ in range(self._load.together):
                    self._ask(now)
                due += self._load.together / self._load.rate
            self._take()
            if now >= look:
                self._look()
                look = max(look + self._load.look, time.monotonic())
            select.select([], [], [], _TICK)

    def _ask(self, now: float) -> None:
        n, self._asked = self._asked, self._asked + 1
        what = asked(self._load, self._shape, self.known, self._seed, n)
        about = {"key": what.key, "prompt": len(what.prompt), "max": what.max_tokens}
        self._log.write("request", n=n, **about, within=self._load.within)
        one = _Open(n, what, now)
        try:
            one.stream = self._target.engine_submit(self._end, what.prompt, what.max_tokens)
        except Exception as error:
            self._answer(one, self._word(error), error)
            return
        self._open.append(one)

    def _take(self) -> None:
        for one in list(self._open):
            try:
                piece = self._target.engine_poll(self._end, one.stream)
            except Exception as error:
                self._open.remove(one)
                self._answer(one, self._word(error), error)
                continue
            if piece is not None:
                self._took(one, piece)

    def _took(self, one: _Open, piece: EnginePiece) -> None:
        if piece.tokens:
            if not one.tokens:
                self._log.write("first", n=one.n)
            one.tokens += piece.tokens
            one.moved = time.monotonic()
            self._tokens += len(piece.tokens)
        if piece.finish:
            self._open.remove(one)
            self._answer(one, "ok", None, piece.finish)
            return
        every = self._load.cancel_every
        if every and one.tokens and not one.cancelled and one.n % every == every - 1:
            one.cancelled = True
            self._log.write("cancelled", n=one.n)
            self._target.engine_cancel(self._end, one.stream)

    def _answer(self, one: _Open, word: str, error: Exception | None, finish: str = "") -> None:
        text = f"{type(error).__name__}: {error}"[:_TEXT] if error is not None else ""
        about = {"outcome": word, "finish": finish, "error": text, "key": one.what.key}
        told = {"count": len(one.tokens), "digest": digest(one.tokens)}
        self._log.write("answer", n=one.n, **about, **told, s=_since(one.asked))

    def _look(self) -> None:
        began = time.monotonic()
        health = self._target.engine_health(self._end)
        took = _since(began)
        parts = self._target.engine_parts(self._end)
        if parts != self._parts:
            self._parts = dict(parts)
            self._log.write("parts", parts=self._parts)
            self._tell(self._parts)
        stalled = max((began - one.moved for one in self._open), default=0.0)
        self._log.write(
            "looked",
            alive=health.alive,
            ready=health.ready,
            progressing=health.progressing,
            replicas=health.replicas,
            tokens=self._tokens,
            open=len(self._open),
            stalled=round(stalled, 3),
            s=took,
        )
        self._health = health
        self._looks += 1

    def _whole(self) -> bool:
        health = self._health
        if health is None or not (health.alive and health.ready and health.progressing):
            return False
        if health.replicas < self._most or not self._first <= self._parts.keys():
            return False
        return all(_runs(pid) for pid in self._parts.values())


def _runs(pid: int) -> bool:
    return state(pid) not in ("", "Z", "X", "T", "t")


def _since(began: float) -> float:
    return round(time.monotonic() - began, 6)
