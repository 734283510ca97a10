"""The reference's wave protocol as capabilities ``waves`` and ``coordinator``: its pure cores."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from killpoint.targets.coordination import Published, Started
from killpoint.targets.protocol import UnsupportedByTarget
from killpoint.targets.waves import Audience, Sent
from refengine.coordinator import CoordinatorWave, EngineWave, FrontEndWave, Report, Start, State


class _Core:
    """Anything with slots: its state is what is in them."""

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
    """The coordinator's half."""

    def __init__(self, engines: int) -> None:
        super().__init__(CoordinatorWave(engines))

    def hear(self, sender: str, message: Hashable) -> Sent:
        """A report."""
        del sender
        return _to_all(self._core.hear(cast("Report", message)))

    def arrived(self, who: str) -> Sent:
        """A subscription."""
        if who.startswith("engine-"):
            return _to_all(self._core.arrived(int(who.removeprefix("engine-"))))
        return _to_all([self._core.state()])

    def left(self, who: str) -> Sent:
        """The end of a subscription."""
        return _to_all(self._core.left(int(who.removeprefix("engine-"))))


class Engine(_Core):
    """A replica's half."""

    def __init__(self, rank: int) -> None:
        super().__init__(EngineWave(rank))

    @property
    def members(self) -> Sequence[int]:
        """Of the wave that it is in, or was in last."""
        return self._core.members

    @property
    def unfinished(self) -> int:
        """Accepted and not ended."""
        return self._core.unfinished

    def hear(self, sender: str, message: Hashable) -> Sent:
        """A start."""
        del sender
        return _up(self._core.hear(cast("Start", message)))

    def accept(self) -> Sent:
        """A request."""
        return _up(self._core.accepted())

    def step(self) -> bool:
        """A step ends one request."""
        if self._core.unfinished:
            self._core.finished()
        return self._core.unfinished > 0

    def agreed(self, anyone_unfinished: bool) -> Sent:
        """The all-reduce."""
        return _up(self._core.agreed(anyone_unfinished))

    def broken(self, lost: Sequence[int]) -> Sent:
        """For want of these."""
        return _up(self._core.broken(tuple(lost)))

    def hold(self) -> Sent:
        """Held."""
        self._core.hold()
        return ()

    def release(self) -> Sent:
        """Released."""
        return _up(self._core.release())


class FrontEnd(_Core):
    """A front end's half."""

    def __init__(self) -> None:
        super().__init__(FrontEndWave())

    def hear(self, sender: str, message: Hashable) -> Sent:
        """A state."""
        del sender
        self._core.hear(message)
        return ()


class Cast(NamedTuple):
    """All of them."""

    coordinator: Coordinator
    engines: Sequence[Engine]
    front_ends: Sequence[FrontEnd]


class Alone:
    """The coordinator's core among peers that the harness plays."""

    front_ends_wake = False

    def __init__(self, engines: int) -> None:
        self._core = CoordinatorWave(engines)
        self._said: list[Started | Published] = []
        self._keep([self._core.state()])

    def arrive(self, engine: int) -> None:
        """A subscription."""
        self._keep(self._core.arrived(engine))

    def wake(self, engine: int, wave: int) -> None:
        """No front end says so."""
        raise UnsupportedByTarget(f"front ends wake nobody (engine {engine}, wave {wave})")

    def want(self, engine: int, wave: int) -> None:
        """A report."""
        self._keep(self._core.hear(Report(engine, wants=wave, work=True)))

    def elapse(self, seconds: float) -> None:
        """The core has no clock."""

    def said(self) -> list[Started | Published]:
        """Since the last call."""
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
    def coordinate(self, engines: int) -> Generator[Alone]:
        """A fresh core."""
        yield Alone(engines)

    def wave_parties(self, engines: int, front_ends: int) -> Cast:
        """Fresh ones."""
        return Cast(
            Coordinator(engines),
            [Engine(rank) for rank in range(engines)],
            [FrontEnd() for _ in range(front_ends)],
        )


def _to_all(messages: list[Any]) -> list[tuple[Audience, Hashable]]:
    return [("engines" if isinstance(m, Start) else "front-ends", m) for m in messages]


def _up(reports: list[Report]) -> list[tuple[Audience, Hashable]]:
    return [("coordinator", report) for report in reports]
