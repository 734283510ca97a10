"""Extension modules of a target's own: native code, in which no line can be struck."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.machinery import ExtensionFileLoader
from types import ModuleType
from typing import cast

_OTHERS = frozenset(("killpoint", "msgspec", "numpy", "torch", "zmq"))
"""Packages that a queue is built on, and that are judged by their own tests."""


def native_code(target: object) -> list[str]:
    """The extension modules that are loaded and belong to a target, by name.

    They are those of the packages in ``native``, if the adapter names any; else of the adapter's
    own package, and of every package that its module has imported by name. The standard library,
    numpy, torch and the like never belong to a target.
    """
    declared: object = getattr(target, "native", None)
    named = cast("Iterable[str]", declared) if isinstance(declared, (tuple, list)) else None
    packages = set(named) if named is not None else _imported(target)
    found = [name for name, module in list(sys.modules.items()) if _is_extension(module)]
    return sorted(name for name in found if name.partition(".")[0] in packages)


def _imported(target: object) -> set[str]:
    home = sys.modules.get(type(target).__module__)
    if home is None:
        return set()
    known = [each for each in vars(home).values() if isinstance(each, ModuleType)]
    names = {home.__name__, *(module.__name__ for module in known)}
    return {name.partition(".")[0] for name in names} - _OTHERS - set(sys.stdlib_module_names)


def _is_extension(module: ModuleType) -> bool:
    spec = getattr(module, "__spec__", None)
    return isinstance(getattr(spec, "loader", None), ExtensionFileLoader)
