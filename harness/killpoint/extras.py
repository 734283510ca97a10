"""Extras of the installation: the packages that each adds, and the sentence where one is lacking.

A bare ``pip install killpoint`` judges any queue. What the reference, published engines and
clusters need is imported by the functions that use it, and checked here.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from types import ModuleType
from typing import Literal, cast

from killpoint.errors import BadUsage

Extra = Literal["reference", "engines", "ray"]

PACKAGES: dict[Extra, tuple[str, ...]] = {
    "reference": ("cloudpickle", "prometheus_client", "starlette", "torch", "uvicorn"),
    "engines": ("cloudpickle", "torch", "unearth"),
    "ray": ("ray",),
}
"""Modules by the extra of ``pyproject.toml`` that installs them."""


def installed(module: str) -> bool:
    """Return whether a top-level module can be imported; it is not imported for that."""
    if module in sys.modules:  # None there forbids its import
        return cast("ModuleType | None", sys.modules[module]) is not None
    return _found(module, tuple(sys.path))


@functools.cache
def _found(module: str, path: tuple[str, ...]) -> bool:
    """Look in the folders of ``path``, which is ``sys.path``: once, since each play asks."""
    del path
    return importlib.util.find_spec(module) is not None


def require(what: str, extra: Extra) -> None:
    """Return if every package of an extra is installed.

    Raises:
        BadUsage: one is not; ``what`` names the request that needs it.
    """
    for module in PACKAGES[extra]:
        if not installed(module):
            raise BadUsage(f"{what}: {lacking(module, extra)}")


def lacking(module: str, extra: Extra) -> str:
    """Return the sentence that names the extra to install."""
    return f"{module} is not installed here; expected the extra: pip install 'killpoint[{extra}]'"


def lacking_in(error: BaseException) -> str:
    """Return that sentence for a failed import of an extra's module; empty for any other error."""
    if isinstance(error, ModuleNotFoundError):
        module = (error.name or "").partition(".")[0]
        for extra, modules in PACKAGES.items():
            if module in modules and not installed(module):
                return lacking(module, extra)
    return ""
