"""Serves a project's own queue and group modules unmodified, among stand-ins for neighbours."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from killpoint.errors import CannotWork
from killpoint.targets.vllm.loading import stubs
from killpoint.targets.vllm.sources import GROUP, Sources

Contents = Mapping[str, Mapping[str, object]]
"""Contents of stand-ins, by module name."""


def serve(sources: Sources, stood_in: Contents | None = None) -> ModuleType:
    """Import the queue's module; once in a process, which has one package of its name.

    Args:
        stood_in: contents of the stand-ins; by default vLLM's.

    Raises:
        CannotWork: the package is imported here already, something it needs is not installed, or
            the queue asks for something of its package's that has no stand-in.
    """
    finder = Finder(sources, stubs.modules() if stood_in is None else stood_in)
    if finder.package in sys.modules:
        what = f"another {finder.package} is imported in this process already"
        raise CannotWork(f"{sources.spec}: {what}")
    sys.meta_path.insert(0, finder)
    try:
        if GROUP in sources.modules():
            importlib.import_module(GROUP)
        return importlib.import_module(sources.module())
    except CannotWork:
        withdraw(finder)
        raise
    except Exception as error:
        withdraw(finder)
        what = f"{type(error).__name__}: {error}"
        raise CannotWork(f"{sources.spec} cannot be imported: {' '.join(what.split())}") from error


def withdraw(finder: Finder) -> None:
    """Undo :func:`serve`, as far as an import can be undone."""
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if finder.answers_for(name)]:
        del sys.modules[name]


class Finder(MetaPathFinder):
    """Finder of the modules of one package and of the stand-ins, and of no others."""

    def __init__(self, sources: Sources, stood_in: Contents) -> None:
        self.sources = sources
        self.package = sources.folder.parts[0]
        self._real = sources.modules()
        self._stood_in = stood_in

    def answers_for(self, name: str) -> bool:
        """Return whether a module of this name is the package, in it, or among the stand-ins."""
        return name.partition(".")[0] == self.package or name in self._stood_in

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return how to load a module of the package: as the real file or a stand-in, or refuse."""
        del path, target
        if not self.answers_for(fullname):
            return None
        if fullname in self._real:
            file = self._real[fullname]
            spec = ModuleSpec(fullname, Unmodified(self.sources, file), origin=str(file))
            spec.has_location = True
            return spec
        if fullname in self._stood_in:
            contents = self._stood_in[fullname]
            loader = Replaced(contents)
            return ModuleSpec(fullname, loader, is_package="__path__" in contents)
        raise ModuleNotFoundError(f"killpoint has no stand-in for {fullname}", name=fullname)


class Unmodified(Loader):
    """Loader that runs a file as it is, and writes nothing beside it."""

    def __init__(self, sources: Sources, file: Path) -> None:
        self._sources = sources
        self._file = file

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return None, for an ordinary module."""
        del spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Run the file, once its content is known to be what was stored."""
        exec(self._sources.compiled(self._file), module.__dict__)


class Replaced(Loader):
    """Loader that makes a stand-in."""

    def __init__(self, contents: Mapping[str, object]) -> None:
        self._contents = contents

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make a module that refuses what it was not given."""
        return stubs.StandIn(spec.name, self._contents)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: nothing is left to run."""
        del module
