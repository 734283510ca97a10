"""The record of a server's play: requests, looks at its health, its parts, and the faults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from killpoint.checkers.finding import Inconclusive, evidence
from killpoint.history.event import Event
from killpoint.history.record import History

SECOND = 1_000_000_000
_LIBRARY = re.compile(r"\((asyncio|uvloop|threading|selectors|queue|zmq|concurrent|<)")
"""Frames of libraries that wait; the first frame outside them says what for."""
_KINDS = ("api-server", "core", "prefill", "worker")


@dataclass
class Request:
    """Request of a client; times in ns."""

    n: int
    asked: int
    control: bool = False
    """True if asked undisturbed, to know the tokens."""
    utility: bool = False
    """True for a utility call, which asks for no tokens."""
    stream: bool = False
    first: int | None = None
    ended: int | None = None
    end: str = "open"
    """See :data:`.load.completion.End`; ``open``: the play was over first."""
    why: str = ""
    last: int = 0
    """Time when its last piece came; 0: none has, or it was not recorded."""
    status: int = 0
    pieces: int = 0
    gap: int = 0
    """Longest time without a piece, ns, from the asking to the end; 0: not recorded."""

    def open_at(self, t: int) -> bool:
        """Return whether it was in flight at `t`."""
        return self.asked <= t and (self.ended is None or self.ended > t)


@dataclass
class Strike:
    """Fault, or call, of a part."""

    t: int
    fault: str
    part: str


@dataclass
class Life:
    """One server, from its start on."""

    history: History
    requests: list[Request] = field(default_factory=list[Request])
    strikes: list[Strike] = field(default_factory=list[Strike])
    trees: list[tuple[int, list[str]]] = field(default_factory=list["tuple[int, list[str]]"])
    looks: list[tuple[int, int]] = field(default_factory=list["tuple[int, int]"])
    """Health checks: time, and status; 0: no answer."""
    ready: list[tuple[int, int]] = field(default_factory=list["tuple[int, int]"])
    """Readiness checks likewise, where the server has another path for them."""
    samples: list[tuple[int, int, int]] = field(default_factory=list["tuple[int, int, int]"])
    """Time, pieces that streams have got so far, requests that were open."""
    gauges: list[tuple[int, float]] = field(default_factory=list["tuple[int, float]"])
    texts: list[tuple[int, int]] = field(default_factory=list["tuple[int, int]"])
    """Time, characters that streams have got so far."""
    shares: list[tuple[int, list[float]]] = field(default_factory=list["tuple[int, list[float]]"])
    """Time when metrics were asked for, requests that each replica has by the server's metrics."""
    front_ended: Event | None = None
    gone: int | None = None
    """Time when no process of it was left."""
    until: int = 0
    drain: float | None = None
    usual: float = 0.0
    """Seconds that a start takes at most on a quiet machine; 0: not known."""
    took: int = 0
    """Time that its start took, ns."""
    restarts: bool = False
    """True if it promises to start a dead part again."""
    unjudged: dict[str, str] = field(default_factory=dict[str, str])
    """By invariant: the reason why no play of this server shows it."""
    asked_until: int | None = None
    """Time when clients stopped asking; None: they did not, or it was not recorded."""
    slow: float = 1.0
    """Factor by which this start took longer than usual; our own bounds are stretched by it."""

    def first(self, *faults: str, part: str | None = None) -> Strike:
        """Return the first such strike.

        Raises:
            Inconclusive: there was none.
        """
        for strike in self.strikes:
            if strike.fault in faults and part in (None, strike.part):
                return strike
        raise Inconclusive("what was to be done to the server was not")

    def alive_at(self, t: int) -> list[str]:
        """Return the parts that lived at `t`."""
        return next((parts for at, parts in reversed(self.trees) if at <= t), list[str]())

    def load(self) -> list[Request]:
        """Return the requests under load."""
        return [each for each in self.requests if not each.control]

    def text_between(self, since: int, until: int) -> int:
        """Return the characters that streams got meanwhile, by the samples next to both ends."""
        before = [chars for t, chars in self.texts if t <= since]
        then = [chars for t, chars in self.texts if t <= until]
        return (then[-1] if then else 0) - (before[-1] if before else 0)

    def undisturbed(self) -> float:
        """Return the characters a nanosecond of streams as all clients asked once, undisturbed.

        Raises:
            Inconclusive: that is not known.
        """
        control = [each for each in self.requests if each.control and each.ended is not None]
        if not control or not self.texts:
            raise Inconclusive("it is not known how much text came undisturbed")
        since, until = min(each.asked for each in control), max(each.ended or 0 for each in control)
        came = self.text_between(since, until)
        if came <= 0:
            raise Inconclusive("no text came undisturbed")
        return came / (until - since)

    def stood(self) -> str:
        """Return where the parts stood that should not have lived any more, one of each kind."""
        said: dict[str, str] = {}
        for event in self.history.of("seen"):
            frames = _words(event, "stack")
            own = [frame for frame in frames if not _LIBRARY.search(frame)]
            frame = next(iter(own or frames), "")
            # The frame of a running process is chance; that of a waiting one is why it is there.
            word = {"T": "is stopped", "R": "runs"}.get(event.text("state"), f"waits in {frame}")
            said.setdefault(kind_of(event.text("part")), word)
        order = ["front", *sorted(set(said) - {"front"})]
        return "; ".join(f"{kind} {said[kind]}" for kind in order if kind in said)


def life(history: History) -> Life:
    """Return what a history says of its server.

    Raises:
        Inconclusive: no server was started.
    """
    if history.first("server-start") is None:
        raise Inconclusive("no server was started")
    of = Life(history, until=history.events[-1].t)
    by_number: dict[int, Request] = {}
    for event in history.events:
        _take(of, by_number, event)
    return of


def _take(of: Life, requests: dict[int, Request], event: Event) -> None:
    match event.kind:
        case "server-start":
            drain = event.data.get("drain")
            of.drain = float(drain) if isinstance(drain, int | float) else None
            usual = event.data.get("usual")
            of.usual = float(usual) if isinstance(usual, int | float) else 0.0
            of.restarts = event.data.get("restarts") is True
            unjudged = event.data.get("unjudged")
            of.unjudged = cast("dict[str, str]", unjudged) if isinstance(unjudged, dict) else {}
            of.gone = of.front_ended = None
        case "ready" if of.usual:
            took = event.data.get("s")
            of.took = int(took * SECOND) if isinstance(took, int | float) else 0
            of.slow = max(1.0, of.took / SECOND / of.usual)
        case "ask":
            made = Request(event.number("n"), event.t, event.text("phase") == "control")
            made.stream = event.data.get("stream") is True
            made.utility = event.text("phase") == "utility"
            requests[made.n] = made
            of.requests.append(made)
        case "first" if event.number("n") in requests:
            requests[event.number("n")].first = event.t
        case "answer" if event.number("n") in requests:
            made = requests[event.number("n")]
            made.end, made.why = event.text("end"), event.text("why")
            made.status, made.pieces = event.number("status"), event.number("pieces")
            made.last, made.gap = event.number("last", 0), event.number("gap", 0)
            made.ended = None if made.end == "open" else event.t
        case "struck":
            of.strikes.append(Strike(_done_at(of.history, event), *_of(event)))
        case "tree":
            of.trees.append((event.t, _words(event, "parts")))
        case "health":
            of.looks.append((event.t, event.number("status")))
        case "readiness":
            of.ready.append((event.t, event.number("status")))
        case "sample":
            of.samples.append((event.t, event.number("heard"), event.number("open")))
            if "chars" in event.data:
                of.texts.append((event.t, event.number("chars")))
        case "gauge":
            number = event.data.get("open")
            of.gauges.append((event.t, float(number) if isinstance(number, int | float) else 0.0))
            shares = cast("list[float]", event.data.get("shares") or [])
            took = event.data.get("s", 0.0)
            began = event.t - int(took * SECOND if isinstance(took, int | float) else 0)
            of.shares.append((began, [float(share) for share in shares]))
        case "load-ended":
            of.asked_until = event.t
        case "front-ended":
            of.front_ended = event
        case "gone":
            of.gone = event.t
        case _:
            pass


def _words(event: Event, key: str) -> list[str]:
    return [str(word) for word in cast("list[object]", event.data.get(key) or [])]


def _of(event: Event) -> tuple[str, str]:
    return event.text("fault"), event.text("target")


def _done_at(history: History, struck: Event) -> int:
    """Return the time when the fault that was seen to act was done."""
    done = [e.t for e in history.of("fault") if _of(e) == _of(struck) and e.t <= struck.t]
    return done[-1] if done else struck.t


def kind_of(part: str) -> str:
    """Return a part's kind: ``worker`` for ``worker-1``."""
    kind, _, number = part.rpartition("-")
    return kind if kind in (*_KINDS, "helper") and number.isdigit() else part


def listed(parts: list[str]) -> str:
    """Return parts in words, without numbers: ``front, core and workers``."""
    kinds = [kind_of(part) for part in parts]
    several = {kind: kinds.count(kind) > 1 for kind in dict.fromkeys(sorted(kinds))}
    words = [f"{kind}s" if many else kind for kind, many in several.items()]
    words.sort(key=lambda word: word != "front")
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def counted_ends(requests: list[Request]) -> str:
    """Return how requests ended, in words, the worst first: ``3 hang, 9 error``."""
    order = ("hang", "open", "truncated", "differs", "torn", "no-answer", "refused", "error")
    ends = [each.end for each in requests]
    counts = {end: ends.count(end) for end in (*order, "whole") if end in ends}
    return ", ".join(f"{count} {end}" for end, count in counts.items())


def lines(of: Life, *more: Event) -> list[str]:
    """Return the lines that show the faults, the front's end, and some events more."""
    shown = list(of.history.of("fault", "struck", "front-ended", "gone", "looked-on", "seen"))
    return evidence(of.history, sorted([*shown[-7:], *more], key=lambda event: event.t))


def answers(of: Life, requests: list[Request], most: int = 3) -> Iterator[Event]:
    """Return the events in which these requests ended."""
    wanted = {each.n for each in requests[:most]}
    return (e for e in of.history.of("answer") if e.number("n") in wanted)
