"""Broken variants of the reference as targets: ``mutated:NAME``, one for each row of the table.

A mutant is the reference's own source with a few lines replaced while it is imported; each old
text must stand exactly once in its file, so a mutant cannot silently stop being one.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from mutant_table import MUTANTS, Edit, Mutant
from planted import PLANTED
from planted.bug import PlantedBug

BROKEN: dict[str, Mutant | PlantedBug] = {each.name: each for each in (*MUTANTS, *PLANTED)}
"""Every broken reference, by name."""


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, edits: list[Edit]) -> None:
        super().__init__(name, path)
        self._edits = edits

    def get_code(self, fullname: str) -> CodeType:
        """Never the cached bytecode of the unbroken file."""
        path = self.get_filename(fullname)
        return self.source_to_code(mutate(self.get_data(path).decode(), self._edits), path)


def mutate(source: str, edits: list[Edit]) -> str:
    """The source with every edit made."""
    for edit in edits:
        found = source.count(edit.old)
        if found != 1:
            raise LookupError(f"{edit.file}: this stands there {found} times, not once: {edit.old}")
        source = source.replace(edit.old, edit.new)
    return source


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant | PlantedBug) -> None:
        self._edits: dict[str, list[Edit]] = {}
        for edit in mutant.edits:
            module = "refengine." + edit.file.removesuffix(".py").replace("/", ".")
            self._edits.setdefault(module, []).append(edit)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Only the modules that this mutant changes."""
        if fullname not in self._edits:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin, self._edits[fullname])
        return importlib.util.spec_from_file_location(fullname, spec.origin, loader=loader)


def break_here(name: str) -> None:
    """Make this interpreter, which has not imported the reference yet, have the mutant's source."""
    sys.meta_path.insert(0, _Finder(BROKEN[name]))


def _break_what_it_starts(name: str) -> None:
    """Have interpreters that this process starts do the same: an engine's cores are such."""
    os.environ["REFENGINE_MUTANT"] = name
    places = [str(Path(__file__).parent / "spawned"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))


def factory(mutant: Mutant | PlantedBug) -> Callable[[], Any]:
    """What makes the target, in a process that has not imported the reference yet."""

    def make() -> Any:
        loaded = [name for name in sys.modules if name.split(".")[0] == "refengine"]
        if loaded and mutant.edits:
            raise RuntimeError(f"refengine is imported already: {loaded[0]}")
        sys.meta_path.insert(0, _Finder(mutant))
        if any(edit.file.startswith("engine/") for edit in mutant.edits):
            _break_what_it_starts(mutant.name)
        from killpoint.targets.refengine.adapter import RefengineTarget

        target = RefengineTarget()
        target.name, target.version = "mutant", mutant.name
        return target

    return make


def __getattr__(name: str) -> Callable[[], Any]:
    if name not in BROKEN:
        raise AttributeError(name)
    return factory(BROKEN[name])
