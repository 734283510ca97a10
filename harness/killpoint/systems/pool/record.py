"""Record of a pool: its calls, their outcomes, and its processes' lives, read off a history."""

from __future__ import annotations

from typing import cast

import msgspec

from killpoint.checkers.operation import Operation
from killpoint.history.event import Event
from killpoint.history.record import History

ENDS = {
    "pool-start": "pool-started",
    "call": "call-done",
    "submit": "submitted",
    "result": "result-done",
    "health": "health-done",
    "execute": "executed",
    "pool-stop": "pool-stopped",
}
"""The event that begins an act of the executor, and the one that ends it."""
_BEGINS = {end: begin for begin, end in ENDS.items()}
SERVED = ("call", "result", "health")
"""Acts that need the workers, and fail with their deaths."""
DEADLY = ("kill", "exit", "sigterm", "sigint")


class Act(Operation, kw_only=True):
    """One act of the executor."""

    op: str
    n: int

    @property
    def method(self) -> str:
        """Name of the method that the workers were to run."""
        return self.began.text("method")

    @property
    def replies(self) -> list[tuple[int, int]]:
        """The rank and the call that each reply names, as they came."""
        found = (
            cast("list[list[object]]", self.ended.data.get("replies") or []) if self.ended else []
        )
        return [(cast("int", each[0]), cast("int", each[1])) for each in found]

    def pending_at(self, t: int) -> bool:
        """Return whether the act was under way at that time."""
        return self.began.t <= t and (self.ended is None or self.ended.t >= t)

    def words(self) -> str:
        """The act for people."""
        numbered = {
            "call": "call",
            "submit": "submission",
            "result": "the result of call",
            "execute": "step",
        }
        if self.op in numbered:
            what = f"{numbered[self.op]} {self.n}"
            return f"{what} ({self.method})" if self.method else what
        return {"pool-start": "the start", "pool-stop": "the shutdown"}.get(self.op, "health")


class Life(msgspec.Struct):
    """One pool of a play, from its start to the next one's."""

    start: Act
    acts: list[Act]
    """Everything after the start, in order."""
    workers: int
    output_rank: int
    pids: dict[int, int]
    """The rank of each worker's process."""
    callbacks: list[Event]
    states: list[Event]
    until: int | None
    """Time at which the next pool's start began, ns; None if there is none."""

    def served(self) -> list[Act]:
        """Calls, results and questions of health."""
        return [act for act in self.acts if act.op in SERVED]

    def stops(self) -> list[Act]:
        """Shutdowns."""
        return [act for act in self.acts if act.op == "pool-stop"]

    def stop_began(self) -> int | None:
        """Return the time at which the pool was first asked to stop, ns; None: never."""
        stops = self.stops()
        return stops[0].began.t if stops else None

    def rank(self, event: Event) -> int | None:
        """The rank of the worker that an event of the runner's names; None: of another pool."""
        return self.pids.get(event.number("pid"))


def lives(history: History) -> list[Life]:
    """Every pool of a play, in order."""
    found: list[Life] = []
    inside: dict[str, Act] = {}
    for event in history.of(*ENDS, *_BEGINS, "failure-callback", "pool-state", role="executor"):
        if event.kind == "pool-start":
            if found:
                found[-1].until = event.t
            inside = {"pool-start": Act(op="pool-start", n=-1, began=event)}
            workers = event.number("workers", 0)
            output_rank = event.number("output_rank", 0)
            found.append(Life(inside["pool-start"], [], workers, output_rank, {}, [], [], None))
        elif not found:
            continue
        elif event.kind in ENDS:
            inside[event.kind] = Act(op=event.kind, n=event.number("n"), began=event)
            found[-1].acts.append(inside[event.kind])
        elif event.kind in _BEGINS:
            begun = inside.pop(_BEGINS[event.kind], None)
            if begun is not None:
                begun.ended = event
        else:
            (found[-1].callbacks if event.kind == "failure-callback" else found[-1].states).append(
                event
            )
    for life in found:  # what was asked where there is no pool was asked of nobody
        life.acts = [act for act in life.acts if act.outcome != "no-pool"]
    for here in history.of("worker-here"):
        owner = [life for life in found if life.start.began.t <= here.t]
        if owner:
            owner[-1].pids[here.number("pid")] = here.number("rank")
    return found


def ends(history: History, life: Life) -> dict[int, Event]:
    """Return the event of each worker's end, by rank."""
    return {
        rank: event
        for event in history.of("gone", "exit")
        if (rank := life.rank(event)) is not None
    }


class Strike(msgspec.Struct):
    """Something done to a worker, or to the executor, by the scenario."""

    fault: str
    role: str
    intent: Event

    @property
    def rank(self) -> int | None:
        """Rank of the struck worker; None if the role is no worker."""
        name, _, number = self.role.partition("-")
        return int(number) if name == "worker" and number.isdigit() else None


def strikes(history: History) -> list[Strike]:
    """Return the faults done to roles, in order; holding and going on are not harm."""
    return [
        Strike(event.text("fault"), event.text("target"), event)
        for event in history.of("intent")
        if event.text("fault") not in ("hold", "continue") and not event.data.get("teardown")
    ]


def resumed(history: History, role: str, after: int) -> int | None:
    """Return when a role was let go on after a time, ns; None: never."""
    return next(
        (
            event.t
            for event in history.of("fault")
            if event.t >= after
            and event.text("fault") == "continue"
            and event.text("target") == role
        ),
        None,
    )


def executor_end(history: History) -> Event | None:
    """The end of the executor's process."""
    return next((e for e in history.of("exit") if e.text("target") == "executor"), None)


def pool_lines(history: History, *acts: Act) -> list[str]:
    """Return the faults and these acts, as lines for people."""
    events = list(history.of("fault", "gone", "exit"))[:4]
    for act in acts:
        events += [act.began, *([act.ended] if act.ended else [])]
    return history.lines(sorted(events, key=lambda event: event.t)[-10:])
