"""Players of scenarios for a case run: a stage, or an object in its place."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from killpoint.runner.stage import Play
from killpoint.scenario import Scenario


class Player(Protocol):
    """A stage, or another object that plays scenarios in its place."""

    def play(self, scenario: Scenario) -> Play:
        """Play one scenario to its end."""
        ...

    def forget(self, play: Play) -> None:
        """Its record is not needed any more."""
        ...


@runtime_checkable
class PlaysAlone(Protocol):
    """Player that can keep other plays away while one is played alone."""

    confirmed: set[str]
    """Violations that plays alone have shown, where one of them stands for others of a finding."""

    def without_others(self) -> AbstractContextManager[None]:
        """See :meth:`killpoint.runner.stage.Stage.without_others`."""
        ...

    def play_alone(self, scenario: Scenario) -> Play:
        """See :meth:`killpoint.runner.stage.Stage.play_alone`."""
        ...


@runtime_checkable
class PlaysRecorded(Protocol):
    """Player whose roles can record which lines of the target's own files they run."""

    def play_recorded(self, scenario: Scenario) -> Play:
        """See :meth:`killpoint.runner.stage.Stage.play_recorded`."""
        ...


@runtime_checkable
class Caller(Protocol):
    """A player that can call a function where the target is loaded."""

    def call(self, function: str, data: bytes, within: float) -> bytes:
        """See :meth:`killpoint.runner.stage.Stage.call`."""
        ...


@runtime_checkable
class KnowsFiles(Protocol):
    """A player that knows where the target's own files lie."""

    @property
    def files(self) -> dict[str, str]:
        """See :attr:`killpoint.runner.stage.Stage.files`."""
        ...
