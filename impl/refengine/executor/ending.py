"""How a forked process ends: as an interpreter would, without its parent's own exit."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from multiprocessing import util
from typing import Any, NoReturn

_util: Any = util
_threading: Any = threading


def begin() -> None:
    """What the parent was to do at its exit is none of this process's business."""
    _util._finalizer_registry.clear()
    _util._run_after_forkers()


def run_and_exit(work: Callable[[], int]) -> NoReturn:
    """Run it, tidy up as multiprocessing's children do, and exit with what it returned."""
    status = 1
    try:
        status = work()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        try:
            with contextlib.suppress(Exception):
                _util._exit_function()
                _threading._shutdown()
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
        finally:
            os._exit(status)
