"""Record of an engine's life: its requests, its health, and the faults done to it."""

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
    """Event of the request's first token."""
    cancelled: Event | None = None
    answer: Event | None = None

    @property
    def key(self) -> int:
        """Key of what the request asked for; -1 if it asked for more than is possible."""
        return self.asked.number("key")

    @property
    def well(self) -> bool:
        """True if the request ended as it should, or was cancelled."""
        return self.answer is not None and self.answer.text("outcome") == "ok"

    @property
    def failed(self) -> bool:
        """True if the request ended with an error."""
        return self.answer is not None and not self.well

    def open_at(self, t: int) -> bool:
        """Return whether the request was in flight."""
        return self.asked.t <= t and (self.answer is None or self.answer.t > t)


class HealthReading(msgspec.Struct):
    """Health that the engine reported at one instant, and the tokens that had come until then."""

    event: Event
    alive: bool
    ready: bool
    progressing: bool
    tokens: int
    open: int
    stalled: int
    """Time for which the request that has waited longest for a token has waited, ns."""
    took: int
    """Time that the health answer took, ns."""

    @property
    def t(self) -> int:
        """Time of the event, ns."""
        return self.event.t


class Strike(msgspec.Struct):
    """Fault that the scenario did to a part."""

    fault: str
    part: str
    event: Event
    """Event that was logged once the fault was done."""
    end: int
    """Time at which the next fault was done to the engine, or its record ends, ns."""
    resumed: int | None = None
    """Time at which a stopped part was let go on, ns."""
    whole: Event | None = None
    """Event that says whether the engine was whole again; None if no step waited for that."""

    @property
    def replica(self) -> str:
        """Replica that the part belongs to, or the part itself."""
        return self.part.split("/")[0]

    @property
    def kind(self) -> str:
        """Kind of process: worker, core, prefill or coordinator."""
        replica, _, inner = self.part.partition("/")
        return inner.rsplit("-", 1)[0] if inner else replica.rsplit("-", 1)[0]

    @property
    def t(self) -> int:
        """Time of the event, ns."""
        return self.event.t


class Life(msgspec.Struct):
    """An engine from its start to its stop."""

    start_took: int
    """Nanoseconds that the start took."""
    rate: float
    """Requests a second that are asked for."""
    together: int
    """Number of requests that are asked at once."""
    until: int
    """Time at which the engine's stop began, or its record ends, ns."""
    requests: list[Request]
    looks: list[HealthReading]
    strikes: list[Strike]

    def looked(self, since: int, until: int) -> list[HealthReading]:
        """The looks of an interval."""
        return [look for look in self.looks if since <= look.t <= until]

    def came_well(self, since: int, until: int) -> int:
        """Return the number of requests that ended well in an interval."""
        return sum(
            each.well and each.answer is not None and since <= each.answer.t < until
            for each in self.requests
        )


def life(scenario: Scenario, history: History) -> Life:
    """Return the life of the one engine of a play.

    Raises:
        Inconclusive: it did not start, no request was made, or a fault was not done.
        Lacking: it has no such part.
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
    """Return the nanoseconds that the machine's own lateness adds to a limit."""
    return history.allowance(since, until)


def some(history: History, life: Life, *more: Event | None, around: int) -> list[str]:
    """Return the faults, the looks nearest to a time, and these events, as lines for people."""
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


def _looks(history: History) -> list[HealthReading]:
    return [
        HealthReading(
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
    """Check that each fault was done whose part the target has.

    Raises:
        Lacking: the target's engine has none of the parts.
        Inconclusive: a part was not there when it was to be struck.
    """
    done = [(event.text("fault"), event.text("target")) for event in history.of("fault")]
    here = {event.text("target") for event in history.of("part-here")}
    told = [
        (step.fault, step.role)
        for step in scenario.steps
        if isinstance(step, Fault) and step.role in scenario.parts()
    ]
    if told and not any(part in here for _, part in told):
        raise Lacking(f"the target's engine has no part {told[0][1]}")
    if any(not whole.data.get("yes") for whole in history.of("whole")):
        return  # a vital part stayed away, and what was to follow was left out
    for fault, part in told:
        if part in here and done.count((fault, part)) < told.count((fault, part)):
            raise Inconclusive(f"{part} was not there when it was to be struck ({fault})")
