"""Calls of a pipe's ranks, with the times of their begins and ends: histories for H4."""

from __future__ import annotations

import signal
from typing import Any

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import AnyStep, Scenario
from killpoint.targets.shapes import PipeShape
from killpoint.verdict import Violation

SECOND = 1_000_000_000
Span = tuple[float, float | None]
"""Seconds at which a call began and ended; None: it never returned."""


class Calls:
    """A history, call by call. Ranks are numbers; times are seconds from its begin."""

    def __init__(self, *, size: int = 2, limit: int = 100) -> None:
        self.shape = PipeShape(size=size, buffer_bytes=limit)
        self.steps: list[AnyStep] = []
        self._events: list[Event] = []
        self._seq = 0

    def sends_blocks(
        self, rank: int, request: str, when: Span, outcome: str = "ok", *, lease: float = 3.0
    ) -> list[str]:
        """A rank sends a request's blocks; return their digests."""
        self._seq += 1
        digests = [f"{self._seq}-first", f"{self._seq}-last"]
        named = {"request": request, "seq": self._seq}
        about = {"digests": digests, "lease": lease}
        self._call(rank, ("blocks-send", "blocks-sent"), when, named, about, {"outcome": outcome})
        return digests

    def harms(self, rank: int, at: float, how: str = "swapped") -> Calls:
        """The next blocks of a rank are harmed."""
        self._tell(at, f"pipe-{rank}", "blocks-forge", {"how": how})
        return self

    def asks(
        self,
        rank: int,
        request: str,
        when: Span,
        outcome: str | list[str] = "timeout",
        *,
        timeout: float | None = None,
    ) -> Calls:
        """A rank asks for a request's blocks, and gets these, or this outcome."""
        served = list[str]() if isinstance(outcome, str) else outcome
        told = {"outcome": outcome if isinstance(outcome, str) else "ok", "digests": served}
        began, ended = when
        given = timeout if timeout is not None else (ended or began) - began
        kinds = ("blocks-receive", "blocks-got")
        self._call(rank, kinds, when, {"request": request}, {"timeout": given}, told)
        return self

    def sends(
        self, rank: int, when: Span, outcome: str = "ok", *, size: int = 10, timeout: float = 5.0
    ) -> str:
        """A rank sends a tensor of so many bytes; return its digest."""
        self._seq += 1
        about = {"timeout": timeout, "bytes": size, "shape": [size], "dtype": "uint8"}
        about |= {"digest": f"d{self._seq}", "form": "tensor"}
        kinds = ("pipe-send", "pipe-sent")
        self._call(rank, kinds, when, {"seq": self._seq}, about, {"outcome": outcome})
        return f"d{self._seq}"

    def gets(self, rank: int, when: Span, digest: str, *, timeout: float = 5.0) -> Calls:
        """A rank receives this tensor."""
        told = {"outcome": "ok", "digest": digest}
        self._call(rank, ("pipe-receive", "pipe-got"), when, {}, {"timeout": timeout}, told)
        return self

    def misses(self, rank: int, when: Span, outcome: str = "timeout", *, timeout: float) -> Calls:
        """A receive ends without a tensor."""
        kinds = ("pipe-receive", "pipe-got")
        self._call(rank, kinds, when, {}, {"timeout": timeout}, {"outcome": outcome})
        return self

    def dies(self, rank: int, at: float) -> Calls:
        """A rank is killed."""
        role = f"pipe-{rank}"
        told = {"fault": "kill", "target": role}
        self._tell(at - 0.001, "director", "intent", told)
        self._tell(at, "director", "fault", told)
        end = {"target": role, "pid": 1, "signal": int(signal.SIGKILL)}
        self._tell(at, "director", "exit", end)
        return self

    def closes(self, rank: int, when: Span, outcome: str = "ok") -> Calls:
        """A rank closes its end."""
        self._call(rank, ("pipe-close", "pipe-closed"), when, {}, {}, {"outcome": outcome})
        return self

    def opens(self, rank: int, at: float, outcome: str) -> Calls:
        """A rank's end of the pipe is made, or not."""
        self._tell(at, f"pipe-{rank}", "end", {"op": "pipe-open", "outcome": outcome, "error": "E"})
        return self

    def keeps(self, rank: int, at: float, count: int) -> Calls:
        """A rank's buffer is looked at."""
        self._tell(at, f"pipe-{rank}", "buffered", {"bytes": count, "s": 0.0})
        return self

    def found(self) -> Finding:
        """Return what the judge of H4 finds."""
        scenario = Scenario("H4/synthetic", ["H4"], self.steps, pipe=self.shape)
        return CHECKERS["H4"](scenario, History(self._events), Ledger())

    def violation(self) -> Violation:
        """Return the one violation that it finds."""
        (violation,) = self.found().violations
        return violation

    def holds(self) -> bool:
        """Return whether the judge can explain all."""
        return self.found().violations == []

    def _call(
        self,
        rank: int,
        kinds: tuple[str, str],
        when: Span,
        named: dict[str, Any],
        about: dict[str, Any],
        told: dict[str, Any],
    ) -> None:
        began, ended = when
        self._tell(began, f"pipe-{rank}", kinds[0], named | about)
        if ended is not None:
            seconds = round(ended - began, 6)
            end = named | told | {"error": "E", "s": seconds}
            self._tell(ended, f"pipe-{rank}", kinds[1], end)

    def _tell(self, at: float, role: str, kind: str, data: dict[str, Any]) -> None:
        self._events.append(Event(int((100 + at) * SECOND), role, kind, data))
