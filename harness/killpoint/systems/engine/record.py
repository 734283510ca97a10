"""The record of an engine's life: its requests, how it said it was, and what was done to it."""

from __future__ import annotations

import msgspec

from killpoint.checkers.finding import Inconclusive, Lacking
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Fault, Scenario

SECOND = 1_000_000_000


class Request(msgspec.Struct):
    """One request of the load."""

    n: int
    asked: Event
    first: Event | None = None
    """Its first token."""
    cancelled: Event | None = None
    answer: Event | None = None

    @property
    def key(self) -> int:
        """What it asked for; -1: for more than can be."""
        return self.asked.number("key")

    @property
    def well(self) -> bool:
        """Whether it ended as a request should, or was cancelled."""
        return self.answer is not None and self.answer.text("outcome") == "ok"

    @property
    def failed(self) -> bool:
        """Whether it ended with an error."""
        return self.answer is not None and not self.well

    def open_at(self, t: int) -> bool:
        """Whether it had been asked for, and had not ended."""
        return self.asked.t <= t and (self.answer is None or self.answer.t > t)


class Look(msgspec.Struct):
    """What the engine said of itself at one instant, and what had come until then."""

    event: Event
    alive: bool
    ready: bool
    progressing: bool
    tokens: int
    open: int
    stalled: int
    """How long the request that has waited longest for a token has waited, ns."""
    took: int
    """How long the answer took, ns."""

    @property
    def t(self) -> int:
        """When."""
        return self.event.t


class Strike(msgspec.Struct):
    """What the scenario did to a part."""

    fault: str
    part: str
    event: Event
    """It was done by then."""
    end: int
    """When the next thing happened to the engine, or its record ends."""
    resumed: int | None = None
    """When a stopped one was let go on."""
    whole: Event | None = None
    """How it came to be what it had been, if anybody waited for that."""

    @property
    def replica(self) -> str:
        """The one that the part belongs to, or the part itself."""
        return self.part.split("/")[0]

    @property
    def kind(self) -> str:
        """What kind of process it is: worker, core, prefill or coordinator."""
        replica, _, inner = self.part.partition("/")
        return inner.rsplit("-", 1)[0] if inner else replica.rsplit("-", 1)[0]

    @property
    def t(self) -> int:
        """When."""
        return self.event.t


class Life(msgspec.Struct):
    """An engine from its start to its stop."""

    start_took: int
    """ns."""
    rate: float
    """Requests a second that are asked for."""
    together: int
    """How many of them at once."""
    until: int
    """When its stop began, or the record ends."""
    requests: list[Request]
    looks: list[Look]
    strikes: list[Strike]

    def looked(self, since: int, until: int) -> list[Look]:
        """The looks of an interval."""
        return [look for look in self.looks if since <= look.t <= until]

    def came_well(self, since: int, until: int) -> int:
        """How many requests ended well in it."""
        return sum(
            each.well and each.answer is not None and since <= each.answer.t < until
            for each in self.requests
        )


def life(scenario: Scenario, history: History) -> Life:
    """The one engine of a play.

    Raises:
        Inconclusive: it did not start, nobody asked for anything, or what was to be done to it was
            not done; Lacking: it has no such part.
    """
    started = history.first("engine-started")
    if started is None:
        raise Inconclusive("no engine was started")
    if started.text("outcome") != "ok":
        raise Inconclusive(f"the engine did not start: {started.text('error')}")
    requests = _requests(history)
    if not requests:
        raise Inconclusive("nothing was asked of the engine")
    _struck_as_told(scenario, history)
    stop = history.first("engine-stop")
    until = stop.t if stop is not None else history.events[-1].t
    load = history.first("load")
    rate = load.data.get("rate") if load is not None else None
    rate = float(rate) if isinstance(rate, int | float) else float("inf")
    together = load.number("together", 1) if load is not None else 1
    return Life(
        _ns(started, "s"),
        rate,
        together,
        until,
        requests,
        _looks(history),
        _strikes(history, until),
    )


def slack(history: History, since: int, until: int) -> int:
    """What the machine's own lateness adds to a limit, ns."""
    return history.allowance(since, until)


def some(history: History, life: Life, *more: Event | None, around: int) -> list[str]:
    """What was done to whom, and these events, as lines for people."""
    near = sorted(life.looks, key=lambda look: abs(look.t - around))[:3]
    events = [*history.of("fault", "gone"), *(look.event for look in near)]
    events += [event for event in more if event is not None]
    return history.lines(sorted(events, key=lambda event: event.t)[-10:])


def _requests(history: History) -> list[Request]:
    found: dict[int, Request] = {}
    for event in history.of("request", "first", "cancelled", "answer", role="front-end"):
        n = event.number("n")
        if event.kind == "request":
            found[n] = Request(n, event)
        elif n in found:
            setattr(found[n], event.kind, event)
    return list(found.values())


def _looks(history: History) -> list[Look]:
    return [
        Look(
            event,
            bool(event.data.get("alive")),
            bool(event.data.get("ready")),
            bool(event.data.get("progressing")),
            event.number("tokens", 0),
            event.number("open", 0),
            _ns(event, "stalled"),
            _ns(event, "s"),
        )
        for event in history.of("looked", role="front-end")
    ]


def _ns(event: Event, key: str) -> int:
    found = event.data.get(key)
    return int(found * SECOND) if isinstance(found, int | float) else 0


def _strikes(history: History, until: int) -> list[Strike]:
    found: list[Strike] = []
    for event in history.of("fault"):
        fault, part = event.text("fault"), event.text("target")
        if event.t >= until or part == "front-end":
            continue
        if fault == "continue":
            for strike in found:
                if strike.part == part and strike.resumed is None:
                    strike.resumed = event.t
            continue
        if found:
            found[-1].end = event.t
        found.append(Strike(fault, part, event, until))
    for whole in history.of("whole"):
        for strike in found:
            if strike.t < whole.t <= strike.end:
                strike.whole = strike.whole or whole
    return found


def _struck_as_told(scenario: Scenario, history: History) -> None:
    """What a target has no such part for cannot be done to it; the rest was done."""
    done = [(event.text("fault"), event.text("target")) for event in history.of("fault")]
    here = {event.text("target") for event in history.of("part-here")}
    told = [
        (step.fault, step.role)
        for step in scenario.steps
        if isinstance(step, Fault) and step.role in scenario.parts()
    ]
    if told and not any(part in here for _, part in told):
        raise Lacking(f"the target's engine has no part {told[0][1]}")
    for fault, part in told:
        if part in here and done.count((fault, part)) < told.count((fault, part)):
            raise Inconclusive(f"{part} was not there when it was to be struck ({fault})")
