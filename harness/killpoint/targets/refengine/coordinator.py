"""The reference's wave protocol as capabilities ``waves`` and ``coordinator``: its pure cores."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from killpoint.targets.coordinator_messages import Published, Started
from killpoint.targets.protocol import UnsupportedByTarget
from killpoint.targets.waves import Audience, Sent
from refengine.coordinator import CoordinatorWave, EngineWave, FrontEndWave, Report, Start, State


class _Core:
    """Any object with slots: its state is the contents of its slots."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._names: tuple[str, ...] = tuple(core.__slots__)

    @property
    def wave(self) -> int:
        return self._core.wave

    @property
    def running(self) -> bool:
        return self._core.running

    def save(self) -> Hashable:
        values = (getattr(self._core, name) for name in self._names)
        return tuple(tuple(cast("Any", v)) if isinstance(v, list) else v for v in values)

    def restore(self, saved: Hashable) -> None:
        for name, value in zip(self._names, cast("tuple[Any, ...]", saved), strict=True):
            was_list = isinstance(getattr(self._core, name), list)
            setattr(self._core, name, list(value) if was_list else value)


class Coordinator(_Core):
    """The coordinator's state machine."""

    def __init__(self, engines: int) -> None:
        super().__init__(CoordinatorWave(engines))

    def hear(self, sender: str, message: Hashable) -> Sent:
        """Handle a report."""
        del sender
        return _to_all(self._core.hear(cast("Report", message)))

    def arrived(self, who: str) -> Sent:
        """Handle a subscription."""
        if who.startswith("engine-"):
            return _to_all(self._core.arrived(int(who.removeprefix("engine-"))))
        return _to_all([self._core.state()])

    def left(self, who: str) -> Sent:
        """Handle the end of a subscription."""
        return _to_all(self._core.left(int(who.removeprefix("engine-"))))


class Engine(_Core):
    """A replica's state machine."""

    def __init__(self, rank: int) -> None:
        super().__init__(EngineWave(rank))

    @property
    def members(self) -> Sequence[int]:
        """Ranks of the wave that it is in, or was in last."""
        return self._core.members

    @property
    def unfinished(self) -> int:
        """Number of requests accepted and not ended."""
        return self._core.unfinished

    def hear(self, sender: str, message: Hashable) -> Sent:
        """Handle a start."""
        del sender
        return _up(self._core.hear(cast("Start", message)))

    def accept(self) -> Sent:
        """Accept a request."""
        return _up(self._core.accepted())

    def step(self) -> bool:
        """End one request by a step."""
        if self._core.unfinished:
            self._core.finished()
        return self._core.unfinished > 0

    def agreed(self, anyone_unfinished: bool) -> Sent:
        """Handle the result of the all-reduce."""
        return _up(self._core.agreed(anyone_unfinished))

    def broken(self, lost: Sequence[int]) -> Sent:
        """Handle the failure of the all-reduce, for want of these ranks."""
        return _up(self._core.broken(tuple(lost)))

    def hold(self) -> Sent:
        """Begin no wave until released."""
        self._core.hold()
        return ()

    def release(self) -> Sent:
        """End the hold."""
        return _up(self._core.release())


class FrontEndCore(_Core):
    """A front end's state machine."""

    def __init__(self) -> None:
        super().__init__(FrontEndWave())

    def hear(self, sender: str, message: Hashable) -> Sent:
        """Handle a state."""
        del sender
        self._core.hear(message)
        return ()


class Cast(NamedTuple):
    """All parties of the wave protocol."""

    coordinator: Coordinator
    engines: Sequence[Engine]
    front_ends: Sequence[FrontEndCore]


class CoordinatorCore:
    """The coordinator's core among peers that the harness plays."""

    front_ends_wake = False

    def __init__(self, engines: int) -> None:
        self._core = CoordinatorWave(engines)
        self._said: list[Started | Published] = []
        self._keep([self._core.state()])

    def arrive(self, engine: int) -> None:
        """Handle a subscription."""
        self._keep(self._core.arrived(engine))

    def wake(self, engine: int, wave: int) -> None:
        """Raise: the reference's front ends do not wake engines."""
        raise UnsupportedByTarget(f"front ends wake nobody (engine {engine}, wave {wave})")

    def want(self, engine: int, wave: int) -> None:
        """Handle a report."""
        self._keep(self._core.hear(Report(engine, wants=wave, work=True)))

    def elapse(self, seconds: float) -> None:
        """Do nothing: the core has no clock."""

    def said(self) -> list[Started | Published]:
        """Return what was sent since the last call."""
        said, self._said = self._said, []
        return said

    def _keep(self, messages: Sequence[Start | State]) -> None:
        for each in messages:
            start = isinstance(each, Start)
            told = Started(each.wave) if start else Published(each.wave, each.running)
            self._said.append(told)


class CoordinatorOfRefengine:
    """The part of the adapter that message orders need."""

    @contextmanager
    def coordinate(self, engines: int) -> Generator[CoordinatorCore]:
        """Make a fresh core."""
        yield CoordinatorCore(engines)

    def wave_parties(self, engines: int, front_ends: int) -> Cast:
        """Make fresh parties."""
        return Cast(
            Coordinator(engines),
            [Engine(rank) for rank in range(engines)],
            [FrontEndCore() for _ in range(front_ends)],
        )


def _to_all(messages: list[Any]) -> list[tuple[Audience, Hashable]]:
    return [("engines" if isinstance(m, Start) else "front-ends", m) for m in messages]


def _up(reports: list[Report]) -> list[tuple[Audience, Hashable]]:
    return [("coordinator", report) for report in reports]
