"""What the director waits for: with a deadline, serving everybody meanwhile; and what a hang is."""

from __future__ import annotations

import time
from collections.abc import Callable

from killpoint import scenario as script
from killpoint.faults import FAULTS
from killpoint.history.log import Log
from killpoint.scenario import Scenario
from killpoint.stage import diagnosis
from killpoint.stage.cast import Actor
from killpoint.stage.comers import Comers

TICK = 0.02
"""The control wait: how much longer than this a plain wait took is what time verdicts allow."""
_CARRIES_WITHIN = 1.0
"""Seconds for a thread of the target's to come to a stop; later it is let past."""
_SETTLED = 6
"""Looks in a row, a tick apart, at which a role is inside its operation."""


class Stalled(Exception):
    """The harness's own part of a play did not go on: the play says nothing of the target."""


class Waiting:
    """The waits of one play."""

    def __init__(
        self,
        scenario: Scenario,
        log: Log,
        actors: dict[str, Actor],
        comers: Comers,
        serve: Callable[[float], None],
    ) -> None:
        """``serve``: takes what comes in, for at most so many seconds."""
        self._scenario = scenario
        self._log = log
        self._actors = actors
        self._comers = comers
        self._serve = serve

    def until(
        self, done: Callable[[], bool], within: float, complaint: str | None, *, paced: bool = False
    ) -> bool:
        """Serve everybody until ``done``; on expiry complain, or just say no for None and ''.

        Raises:
            Stalled: it did not come to that in time, and somebody minds.
        """
        end = time.monotonic() + within
        while not done():
            if time.monotonic() >= end:
                if complaint:
                    raise Stalled(f"{complaint} within {within:g} s")
                return False
            if paced:
                stop = time.monotonic() + TICK
                while (left := stop - time.monotonic()) > 0:
                    self._serve(left)
            else:
                self._serve(TICK)
        return True

    def wait(self, step: script.Wait) -> None:
        """Until roles have done all they were told; who has not in time hangs."""
        names = self._scenario.named(step.roles)
        waited = [self._actors[name] for name in names if name in self._actors]

        def quiet() -> bool:
            return not any(a.alive and a.outstanding and not a.held_up for a in waited)

        if self.until(quiet, step.within, None):
            return
        for actor in waited:
            if actor.alive and actor.outstanding and not actor.held_up:
                self.hang(actor, _doing(actor))

    def hang(self, actor: Actor, doing: str) -> None:
        """It does not come back: record what it and its workers are doing, then end it."""
        self._log.write("hang", target=actor.name, op=doing, **diagnosis.seen(actor.pid))
        self._comers.dump("seen", beside=actor.name)
        look_at_maps(self._log, actor)
        self._log.write("intent", fault="kill", target=actor.name, teardown=True)
        FAULTS["kill"].act(actor)
        self.until(lambda: not actor.alive, 10.0, f"{actor.name} did not die")

    def settle(self, step: script.Settle) -> None:
        """Until roles are inside what they do; a worker, or one to be held, until it stands.

        Raises:
            Stalled: one did not begin to wait.
        """
        names = self._scenario.named(step.roles)
        inside = dict.fromkeys(names, 0)

        def settled(name: str) -> bool:
            actor = self._actors[name]
            if name in self._comers.actors:
                return actor.held_up or actor.status is not None
            if any(fault.fault == "hold" for fault in actor.armed.values()):
                return not actor.alive
            if actor.at_point and not actor.stopped:
                return True
            return inside[name] > _SETTLED or not actor.alive or not actor.outstanding

        def all_settled() -> bool:
            for name, actor in self._actors.items():
                if name in inside:
                    within = actor.begun in actor.outstanding
                    inside[name] = inside[name] + 1 if within else 0
            return all(map(settled, names))

        if not self.until(all_settled, step.within, None, paced=True):
            late = next(name for name in names if not settled(name))
            raise Stalled(f"{late} did not begin to wait within {step.within:g} s")
        for name in names:
            self._log.write("settled", target=name, state=diagnosis.state(self._actors[name].pid))

    def await_stop(self, actor: Actor) -> None:
        """A continue comes after the stop it undoes: on a slow machine that may be yet to come.

        Raises:
            Stalled: it does not come.
        """

        def stopped() -> bool:
            pending = any(step.fault in ("stop", "hold") for step in actor.armed.values())
            return not (pending and self._on_its_way(actor))

        carried = [id for id, s in actor.armed.items() if s.at and s.at.op == "carry"]
        if carried:  # its own threads may come there or not, whatever it was told
            self.until(lambda: carried[0] not in actor.armed, _CARRIES_WITHIN, None)
            actor.armed.pop(carried[0], None)
            return
        self.until(stopped, 30.0, f"{actor.name} did not come to the point of its stop")

    def _on_its_way(self, actor: Actor) -> bool:
        """Whether it does something by which it may yet come to a point."""
        starter = self._actors[self._scenario.roles()[0]]
        doing = starter if actor.name in self._comers.actors else actor
        return doing.alive and bool(doing.outstanding) and not doing.held_up


def look_at_maps(log: Log, actor: Actor) -> None:
    """Record which shared memory a role maps now."""
    names = diagnosis.mapped_segments(actor.pid)
    if names:
        log.write("mapped", target=actor.name, names=" ".join(names))


def _doing(actor: Actor) -> str:
    step = actor.outstanding.get(actor.begun) or next(iter(actor.outstanding.values()))
    return str(step.__struct_config__.tag)
