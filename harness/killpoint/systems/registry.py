"""Every system that is put on trial: a package with modules of fixed names.

A package of a system has ``system`` (``SYSTEM``, a :class:`killpoint.systems.base.System`),
``driver`` (``make``: a :class:`killpoint.runner.driver.Driver`), ``checks`` (``CHECKS``, a
:class:`killpoint.checkers.base.Checks`) and ``cases`` (``CASES``). One outside the tree has
``steps`` (``SHAPE`` and ``STEPS``) and ``invariants`` (``INVARIANTS``) as well. They are of
different layers, and are imported when they are asked for: so a scenario can be read without the
runner, and played without the judges.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import TYPE_CHECKING, cast

from killpoint import extensions

if TYPE_CHECKING:
    from killpoint.scenario.scenario import Scenario
    from killpoint.systems.base import OwnPlayer, System

OURS = ("queue", "group", "pool", "pipe", "engine", "coordinator", "server")
"""Packages beside this module."""
SYSTEMS = (*OURS, *sorted(extensions.entries("systems")))
"""Their names, those that packages outside the tree add last."""


@functools.cache
def part(system: str, module: str) -> ModuleType:
    """Return a module of a system's package."""
    if system not in OURS:
        return cast("ModuleType", extensions.part(system, module))
    return importlib.import_module(f"killpoint.systems.{system}.{module}")


def system_named(name: str) -> System:
    """Return the system of this name."""
    return part(name, "system").SYSTEM


def system_of(scenario: Scenario) -> System:
    """Return the system that a scenario is of."""
    return system_named(scenario.system())


def own_player_of(scenario: Scenario) -> OwnPlayer | None:
    """Return the system of a scenario if it plays its scenarios itself, else None."""
    from killpoint.systems.base import OwnPlayer

    system = system_of(scenario)
    return system if isinstance(system, OwnPlayer) else None
