"""Draws of Hypothesis that follow from the seed, and not from what the process has imported.

One draw in twenty is a constant that Hypothesis has read in the modules that are loaded and are not
installed (``hypothesis.internal.conjecture.providers``, since 6.131). A seed would draw other
programs once any file of the harness is changed, or another case has run before.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from typing import Any

from hypothesis.internal.conjecture import providers

_READ, _CACHE = "_get_local_constants", "CONSTANTS_CACHE"


class _Thread(threading.local):
    by_seed = False


_thread = _Thread()


@contextlib.contextmanager
def by_seed_alone() -> Generator[None]:
    """Until left, this thread draws no constants of loaded modules.

    A Hypothesis that has none, or has them elsewhere, is left as it is.
    """
    _install()
    _forget()
    _thread.by_seed = True
    try:
        yield
    finally:
        _thread.by_seed = False
        _forget()


def _install() -> None:
    read: Any = getattr(providers, _READ, None)
    if read is None or hasattr(read, "for_seeds"):
        return
    none = type(providers.GLOBAL_CONSTANTS)()

    def constants() -> Any:
        return none if _thread.by_seed else read()

    constants.for_seeds = True  # type: ignore[attr-defined]
    setattr(providers, _READ, constants)


def _forget() -> None:
    """Drop what was permitted of the constants for each kind of draw: it is kept by the kind."""
    cache: Any = getattr(providers, _CACHE, None)
    if cache is not None:
        cache.cache.clear()
