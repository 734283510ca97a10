"""Packages outside the tree: what they add to killpoint by entry points (docs/extend.md)."""

from __future__ import annotations

import functools
import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import Literal

from killpoint.errors import BadUsage

Group = Literal["systems", "checks", "cases", "faults", "targets", "findings", "switch_offs"]
"""What may be added. The name of an entry point is that of the system, fault or target; of the
others it names who adds them. Its value:

``systems``
    A package with the modules ``steps``, ``system``, ``driver``, ``checks``, ``cases`` and
    ``invariants`` (:mod:`killpoint.systems.registry`).
``checks``
    A module with ``INVARIANTS`` and ``JUDGES``: further invariants of any system.
``cases``
    A module with ``CASES``: further cases of any system.
``faults``
    A class of :class:`killpoint.faults.base.FaultKind`, called without arguments.
``targets``
    What makes a target, called without arguments, as after ``--target module:object``.
``findings``
    A package with files ``entries/*.toml``: a registry of findings.
``switch_offs``
    A module with ``SWITCH_OFFS``: edits by finding and file
    (:mod:`killpoint.targets.vllm.switch_offs.table`).
"""


@functools.cache
def entries(group: Group) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; nothing is imported.

    Raises:
        BadUsage: two packages give the same name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=f"killpoint.{group}"):
        other = found.get(entry.name)
        if other is not None and other.value != entry.value:
            what = f"{_owner(other)} ({other.value}) and {_owner(entry)} ({entry.value})"
            raise BadUsage(f"two of killpoint's {group} are named {entry.name!r}: of {what}")
        found[entry.name] = entry
    return found


def load(group: Group, name: str) -> object:
    """Return what an entry point stands for.

    Raises:
        BadUsage: it cannot be imported, or there is none of that name.
    """
    entry = entries(group).get(name)
    if entry is None:
        raise BadUsage(f"no installed package adds {name!r} to killpoint's {group}")
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise BadUsage(
            f"{_owner(entry)} adds {entry.value} to killpoint's {group}: {why}"
        ) from error


def part(name: str, module: str) -> object:
    """Return a module of the package that an added system lies in.

    Raises:
        BadUsage: it cannot be imported.
    """
    entry = entries("systems")[name]
    try:
        return importlib.import_module(f"{entry.value}.{module}")
    except ImportError as error:
        raise BadUsage(f"{_owner(entry)} adds the system {name!r}: {error}") from error


def everything(group: Group, attribute: str) -> list[object]:
    """Return this attribute of every module of a group, in the order of their names.

    Raises:
        BadUsage: one cannot be imported, or lacks it.
    """
    found: list[object] = []
    for name in sorted(entries(group)):
        module = load(group, name)
        if not hasattr(module, attribute):
            raise BadUsage(f"{entries(group)[name].value}, of killpoint's {group}: no {attribute}")
        found.append(getattr(module, attribute))
    return found


def _owner(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "a package"
