"""Thread that has requests answered by an engine: it submits, polls, cancels, and checks health.

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
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from killpoint.history.log import Log
from killpoint.runner.observe.diagnosis import state
from killpoint.systems.engine.load import EngineRequest, digest
from killpoint.targets.engine_protocol import EngineHealth, EnginePiece, HasEngine

_TICK = 0.005
_COME_WITHIN = 3.0
_TEXT = 600
"""Characters of an error's text that are kept."""


class OpenRequest:
    """A request that has not ended."""

    def __init__(self, n: int, what: EngineRequest, now: float) -> None:
        self.n, self.what = n, what
        self.asked = self.moved = now
        self.stream: Any = None
        self.tokens: list[int] = []
        self.cancelled = False


class RequestThread(ABC):
    """Keeps one engine busy until it is told that that is enough."""

    tick = _TICK
    """Seconds between two turns."""

    def __init__(
        self,
        target: HasEngine,
        end: Any,
        log: Log,
        *,
        look: float,
        word: Callable[[Exception], str],
        tell: Callable[[dict[str, int]], None],
    ) -> None:
        """``word``: returns an error's outcome; ``tell``: called with parts that have changed."""
        self.target, self.end, self.log = target, end, log
        self._look_every = look
        self._word, self._tell = word, tell
        self.broken: Exception | None = None
        """Error that ended its thread early."""
        self.open: list[OpenRequest] = []
        self._tokens = self._asked = 0
        self._moved = time.monotonic()  # when a request was asked, had a token or ended
        self._leave = threading.Event()
        self._parts: dict[str, int] = {}
        self._first: frozenset[str] = frozenset()
        self._most = 0
        self._health: EngineHealth | None = None
        self._looks = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    # -- what it is asked of -------------------------------------------------------------------

    @abstractmethod
    def known(self) -> Sequence[EngineRequest]:
        """Return the different requests that it makes, once each."""

    @abstractmethod
    def submit_due(self, now: float) -> None:
        """Submit the requests that are due."""

    @abstractmethod
    def enough(self) -> None:
        """Begin to make no more requests than have been promised."""

    @abstractmethod
    def idle(self) -> bool:
        """Return whether no request is open, and none that was promised is to come."""

    @abstractmethod
    def after(self, one: OpenRequest) -> None:
        """Do what is due to an open request: to cancel it, say."""

    @abstractmethod
    def ended(self, one: OpenRequest) -> None:
        """Note the end of a request."""

    # -- what the role does --------------------------------------------------------------------

    def start(self) -> None:
        """Take the first look at the engine, then start the thread."""
        self.look()
        self._first = frozenset(self._parts)
        self._most = self._health.replicas if self._health else 0
        self._thread.start()

    def serve(self, seconds: float, coming: int) -> None:
        """Let the load go on, and then until so many requests have begun to arrive."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._thread.is_alive():
            select.select([], [], [], min(left, 0.05))
        while sum(bool(one.tokens) for one in list(self.open)) < coming:
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

    def calm(self, within: float, still: float | None = None) -> bool:
        """Make no more requests than promised; return whether all have ended in time.

        ``still``: seconds without news of any of them after which they are not waited for.
        """
        self.enough()
        begun = time.monotonic()
        while not self.idle() and self._thread.is_alive():
            now = time.monotonic()
            if now >= begun + within:
                break
            if still is not None and now >= max(begun, self._moved) + still:
                break
            select.select([], [], [], _TICK)
        return self.idle()

    def halt(self) -> None:
        """End the thread: another thread is about to stop the engine."""
        self.enough()
        self._leave.set()
        if self._thread.is_alive():
            self._thread.join()

    def drain(self, within: float) -> None:
        """Take the remaining answers of open requests after the engine's stop."""
        end = time.monotonic() + within
        while self.open and time.monotonic() < end:
            self._take()
            select.select([], [], [], _TICK)

    # -- its thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._turn()
        except Exception as error:  # raised to the role by its next order
            self.broken = error

    def _turn(self) -> None:
        look = time.monotonic()
        while not self._leave.is_set():
            now = time.monotonic()
            self.submit_due(now)
            self._take()
            if now >= look:
                self.look()
                look = max(look + self._look_every, time.monotonic())
            select.select([], [], [], self.tick)

    def ask(self, what: EngineRequest, within: float, id: str = "") -> OpenRequest:
        """Submit a request; it may have ended by then."""
        n, self._asked = self._asked, self._asked + 1
        about = {"key": what.key, "prompt": len(what.prompt), "max": what.max_tokens}
        self.log.write("request", n=n, **about, within=within, **({"id": id} if id else {}))
        self._moved = now = time.monotonic()
        one = OpenRequest(n, what, now)
        try:
            one.stream = self.submit(what, id)
        except Exception as error:
            self._answer(one, self._word(error), error)
            return one
        self.open.append(one)
        return one

    def submit(self, what: EngineRequest, id: str) -> Any:
        """Submit a request to the target."""
        del id
        return self.target.engine_submit(self.end, what.prompt, what.max_tokens)

    def cancel(self, one: OpenRequest) -> None:
        """Cancel an open request."""
        one.cancelled = True
        self.log.write("cancelled", n=one.n)
        self.target.engine_cancel(self.end, one.stream)

    def _take(self) -> None:
        for one in list(self.open):
            try:
                piece = self.target.engine_poll(self.end, one.stream)
            except Exception as error:
                self.open.remove(one)
                self._answer(one, self._word(error), error)
                continue
            if piece is not None:
                self._took(one, piece)
            if one in self.open:
                self.after(one)

    def _took(self, one: OpenRequest, piece: EnginePiece) -> None:
        if piece.tokens:
            if not one.tokens:
                self.log.write("first", n=one.n)
            one.tokens += piece.tokens
            self._moved = one.moved = time.monotonic()
            self._tokens += len(piece.tokens)
        if piece.finish:
            self.open.remove(one)
            self._answer(one, "ok", None, piece.finish)

    def _answer(
        self, one: OpenRequest, word: str, error: Exception | None, finish: str = ""
    ) -> None:
        text = f"{type(error).__name__}: {error}"[:_TEXT] if error is not None else ""
        about = {"outcome": word, "finish": finish, "error": text, "key": one.what.key}
        told = {"count": len(one.tokens), "digest": digest(one.tokens)}
        self._moved = time.monotonic()
        self.log.write("answer", n=one.n, **about, **told, s=_since(one.asked))
        self.ended(one)

    def look(self) -> None:
        """Log the engine's health, and its parts if they have changed."""
        began = time.monotonic()
        health = self.target.engine_health(self.end)
        took = _since(began)
        parts = self.target.engine_parts(self.end)
        if parts != self._parts:
            self._parts = dict(parts)
            self.log.write("parts", parts=self._parts)
            self._tell(self._parts)
        stalled = max((began - one.moved for one in self.open), default=0.0)
        self.log.write(
            "looked",
            alive=health.alive,
            ready=health.ready,
            progressing=health.progressing,
            replicas=health.replicas,
            tokens=self._tokens,
            open=len(self.open),
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
