"""A coordinator's engines leave a wave's start unanswered; then a second request comes."""

from __future__ import annotations

from typing import cast

import msgspec

from killpoint.systems.coordinator.checks.wakeups import Heard, Told
from killpoint.systems.coordinator.unanswered_starts import Wakes
from killpoint.targets.coordinator_messages import Coordinating, HasCoordinator, Published, Started
from killpoint.targets.protocol import Target

_LONG = 6.0
"""Simulated seconds: longer than any release's longest silence towards front ends."""


def answer(target: Target, data: bytes) -> bytes:
    """Play it where the target is loaded; both are msgpack."""
    wakes = msgspec.msgpack.decode(data, type=Wakes)
    return msgspec.msgpack.encode(play(cast("HasCoordinator", target), wakes))


def play(target: HasCoordinator, wakes: Wakes) -> Heard:
    """Two requests of one front end, for one engine, some time apart.

    During the first all engines are held (their weights are replaced, say): they obey no start,
    and want nothing. The request is then cancelled, and they are released: all are paused.
    """
    heard = Heard(engines=wakes.engines, asked=wakes.engine)
    with target.coordinate(wakes.engines) as coordinator:
        for rank in range(wakes.engines):
            coordinator.arrive(rank)
        coordinator.elapse(_LONG)
        front_end = _FrontEnd(coordinator, heard, believes=not wakes.late)
        heard.lines.append("all engines are held")
        front_end.request(wakes.engine, held=True)
        heard.lines.append("the request is cancelled; all engines are released")
        front_end.later(_LONG)
        heard.told.clear()
        front_end.request(wakes.engine, held=False)
        front_end.later(_LONG)
    return heard


class _FrontEnd:
    """Front end that believes the coordinator's last publication, or has not heard of it yet."""

    def __init__(self, coordinator: Coordinating, heard: Heard, *, believes: bool) -> None:
        self._coordinator, self._heard = coordinator, heard
        self._believes = believes
        self._wave, self._running = 0, False
        self._listen()

    def request(self, engine: int, *, held: bool) -> None:
        """Send one: where front ends wake, only one that believes all idle tells of it."""
        lines = self._heard.lines
        lines.append(f"front end sends a request to engine-{engine}")
        if not self._coordinator.front_ends_wake:
            if not held:
                lines.append(f"engine-{engine} wants wave {self._wave}")
                self._coordinator.want(engine, self._wave)
        elif self._running:
            lines.append("front end believes that all engines run, and wakes nobody")
        else:
            lines.append(f"front end tells the coordinator: engine-{engine}, wave {self._wave}")
            self._coordinator.wake(engine, self._wave)
        self._listen()

    def later(self, seconds: float) -> None:
        """Hear what is said in that time."""
        self._coordinator.elapse(seconds)
        self._heard.lines.append(f"{seconds:g} s pass")
        self._listen()

    def _listen(self) -> None:
        last: Published | None = None
        for said in self._coordinator.said():
            if isinstance(said, Started):
                self._heard.told.append(Told(said.wave, said.excluded))
                but = "" if said.excluded is None else f" but engine-{said.excluded}"
                self._heard.lines.append(f"all engines{but} are told: wave {said.wave} is on")
            else:
                last = said
        if last is not None and self._believes:
            self._wave, self._running = last.wave, last.running
            running = "running" if last.running else "paused"
            self._heard.lines.append(f"front end is told: wave {last.wave}, {running}")
