"""The driver of a system in a role: the methods that execute its steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from killpoint.runner.protocol import Order
from killpoint.scenario import Fault


class AdapterFault(Exception):
    """The adapter broke its own contract: nothing was learnt of the implementation."""


class Driver:
    """Base class of drivers; a system's module ``driver`` has ``make(role, folder)`` for its own.

    A method for a step takes the order and the step, and returns the outcome that the role
    reports: ``ok``, or what the target makes of an error (``Role.outcome_of``).
    """

    child = 0
    """Process id of what the target has started for this role last, if it takes part as a role."""

    def table(self) -> dict[type, Callable[[Order, Any], str]]:
        """Return the method that executes each step of the system."""
        raise NotImplementedError

    def come(self) -> None:
        """Prepare the process before its first order."""

    def look(self, complaints: Path) -> None:
        """Look for secrets of the role's own where other users could read them.

        Args:
            complaints: the file of the role's standard error.
        """

    def fault(self, step: Fault) -> None:
        """Do a fault of the system's own to this role, between two of its steps."""

    def interrupted(self) -> None:
        """Do what a program of this kind does about Ctrl-C."""


def brief(error: BaseException) -> str:
    """Return an exception in one line, with the place that raised it."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = f" ({Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno})" if last else ""
    text = " ".join(str(error).split())
    return (
        f"{type(error).__name__}: {text[:300]}{where}" if text else f"{type(error).__name__}{where}"
    )
