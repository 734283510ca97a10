"""The driver of a system in a role: the methods that execute its steps."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import killpoint
from killpoint.runner.payload import Undecodable, Unencodable
from killpoint.runner.protocol import Order
from killpoint.scenario import Fault
from killpoint.targets.protocol import UnsupportedByTarget

_HARNESS = Path(killpoint.__file__).parent
_ADAPTERS = _HARNESS / "targets"
_LIBRARY = (*map(Path, {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}),)
_BUILT_ON = frozenset(("msgspec", "numpy", "torch", "zmq"))
"""Packages that the harness calls itself: a target's own code stands between, if it calls them."""


class NotConnected(LookupError):
    """A step needs a link that the role does not have: an outcome like others."""


_ANSWERS = (OSError, NotConnected, Undecodable, Unencodable, UnsupportedByTarget)
"""Errors by which the machine, or a step on purpose, gives the outcome of a step."""


class NoEvidence(Exception):
    """Nothing was learnt of the implementation, through no fault of its own."""

    outcome: ClassVar[str]
    """How the role's log calls the end of the step."""


class AdapterFault(NoEvidence):
    """The adapter broke its own contract."""

    outcome = "adapter-fault"


class HarnessFault(NoEvidence):
    """A step failed in the harness's own code, which had not called the implementation."""

    outcome = "harness-fault"


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


def without_evidence(error: Exception) -> Exception | None:
    """Return what another thread raises for an error that says nothing of the target; None: none.

    The first thread reports it for the one that failed.
    """
    if isinstance(error, (UnsupportedByTarget, NoEvidence)):
        return error
    return HarnessFault(brief(error)) if of_harness_alone(error) else None


def of_harness_alone(error: Exception) -> bool:
    """Return whether neither the target nor its adapter had a part in an exception.

    A refusal of the machine is an answer, whoever receives it, and so is what a step raises to be
    told as an outcome.
    """
    if isinstance(error, _ANSWERS):
        return False
    files = {Path(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__)}
    return bool(files) and all(map(_is_harness, files))


def _is_harness(file: Path) -> bool:
    if file.is_relative_to(_HARNESS):
        return not file.is_relative_to(_ADAPTERS)
    for folder in ("site-packages", "dist-packages"):
        if folder in file.parts:
            return file.parts[file.parts.index(folder) + 1].removesuffix(".py") in _BUILT_ON
    return any(map(file.is_relative_to, _LIBRARY))


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
