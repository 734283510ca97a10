"""Changed source without a changed file: the modules are compiled from a tree that is given."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

PACKAGE = "refengine"

Tree = Callable[[str, str], Any]
"""From a file's name below the package, and its source, to the tree to be compiled."""


def plant(tree: Tree, files: set[str] | None = None) -> None:
    """From now on imports of these files of the package (all: None) compile what ``tree`` gives.

    Raises:
        RuntimeError: the package is imported already, so nothing would be changed.
    """
    if PACKAGE in sys.modules:
        raise RuntimeError(f"{PACKAGE} is imported already")
    sys.meta_path.insert(0, _Finder(tree, files))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, tree: Tree, files: set[str] | None) -> None:
        self._tree = tree
        self._files = files

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Only the package's modules, and of them only those that are changed."""
        if fullname.split(".")[0] != PACKAGE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        file = _below(fullname, Path(spec.origin))
        if self._files is not None and file not in self._files:
            return None
        spec.loader = _Loader(fullname, spec.origin, file, self._tree)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, file: str, tree: Tree) -> None:
        super().__init__(name, path)
        self._file = file
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        """Never the cached bytecode of the unchanged file."""
        path = self.get_filename(fullname)
        return compile(self._tree(self._file, self.get_data(path).decode()), path, "exec")


def _below(module: str, origin: Path) -> str:
    """``group/store_group.py`` of ``refengine.group.store_group``."""
    parts = module.split(".")[1:]
    return "/".join(
        [*parts, origin.name] if origin.stem == "__init__" else [*parts[:-1], origin.name]
    )
