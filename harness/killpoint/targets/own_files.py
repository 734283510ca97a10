"""The files of a target's own code, as far as they can be known once it is loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import cast

from killpoint.targets.protocol import Target


def own_files(target: Target) -> dict[str, str]:
    """Return where the target's own files lie, by their path in its package.

    A target may list them itself, in an attribute ``own_files``. Those of another target are the
    files of the modules that are imported, and of their packages, whose code it calls its own
    (``points``).
    """
    told = getattr(target, "own_files", None)
    if isinstance(told, Mapping):
        listed = cast("Mapping[object, object]", told)
        return {str(name): str(path) for name, path in listed.items()}
    is_own = cast("Callable[[CodeType], bool] | None", getattr(target, "is_own_code", None))
    if is_own is None:
        return {}
    return {
        name: str(path)
        for module in list(sys.modules.values())
        for name, path in _of(module)
        if is_own(compile("", str(path), "exec"))
    }


def _of(module: ModuleType) -> Iterator[tuple[str, Path]]:
    """Yield a module's own file, by its path in its package; of a whole package, every file."""
    file, name = getattr(module, "__file__", None), module.__name__
    if not isinstance(file, str) or not file.endswith(".py"):
        return
    path = Path(file)
    if path.name != "__init__.py":
        parts = name.split(".")
        yield "/".join([*parts[1:-1], path.name]), path
    elif "." not in name and "site-packages" not in path.parts and _is_small(name):
        for each in sorted(path.parent.rglob("*.py")):
            yield each.relative_to(path.parent).as_posix(), each


def _is_small(name: str) -> bool:
    """Return whether a package may be searched: not the interpreter's, nor this harness's."""
    return name not in sys.stdlib_module_names and name != "killpoint"
