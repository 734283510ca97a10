"""Switch-offs in a whole engine: of its own findings, and of those that its parts have.

What is known of a part is switched off in the whole engine too, so that a play tells how far it
reaches. Files are named by their path below the package: a whole engine has several of a name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from killpoint.targets.edits import Edits, around, calls
from killpoint.targets.vllm.switch_offs.places import only
from killpoint.targets.vllm.switch_offs.table import (
    COORDINATOR,
    GROUP,
    POOL,
    QUEUE,
    SWITCH_OFFS,
    Edit,
    made,
)

_PARTS = {
    QUEUE: "distributed/device_communicators/shm_broadcast.py",
    POOL: "v1/executor/multiproc_executor.py",
    COORDINATOR: "v1/engine/coordinator.py",
    GROUP: "distributed/utils.py",
}
_CORE = "v1/engine/core.py"
_LAUNCHER = "entrypoints/launchers/launcher.py"

SERVER_SWITCH_OFFS: dict[str, dict[str, Edit]] = {}
"""By the finding's id, the edit of each file; these findings a whole engine alone shows."""


def switchable() -> list[str]:
    """The findings that can be switched off in a whole engine, its own ones first."""
    return [*SERVER_SWITCH_OFFS, *SWITCH_OFFS]


def files_of(id: str) -> dict[PurePosixPath, Edit]:
    """The edit of each file that a switch-off touches, by its path below the package."""
    parts = SWITCH_OFFS.get(id, {}).items()
    edits = SERVER_SWITCH_OFFS.get(id, {}) | {_PARTS[name]: edit for name, edit in parts}
    return {PurePosixPath(file): edit for file, edit in edits.items()}


def edited_files(
    off: Sequence[str], read: Callable[[PurePosixPath], bytes | None]
) -> tuple[dict[PurePosixPath, bytes], list[str]]:
    """The files of an engine with bugs taken out, and the findings that no edit fits.

    Args:
        read: the content of a file, by its path below the package; None: there is none.
    """
    changed: dict[PurePosixPath, bytes] = {}
    absent: list[str] = []
    for id in off:
        fits = False
        for file, edit in files_of(id).items():
            before = changed.get(file) or read(file)
            after = made(edit, before) if before is not None else None
            if after is not None and after != before:
                changed[file] = after
                fits = True
        if not fits:
            absent.append(id)
    return changed, absent


def _edits_of(id: str, file: str) -> Callable[[Edit], Edit]:
    def keep(edit: Edit) -> Edit:
        SERVER_SWITCH_OFFS.setdefault(id, {})[file] = edit
        return edit

    return keep


@_edits_of("orphan-core", _CORE)
def _a_core_is_told_to_end_when_its_front_has_died(edits: Edits) -> None:
    edits.begin(
        edits.function("EngineCoreProc.run_engine_core"),
        """
        import ctypes
        ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)
        """,
    )


@_edits_of("unanswered-at-shutdown", _LAUNCHER)
def _what_still_waits_for_the_core_is_told_that_it_is_gone(edits: Edits) -> None:
    shutting = edits.function("serve_http.handle_shutdown")
    found = calls(shutting, "run_in_executor")
    stopping = only([each for each in found if "engine_client.shutdown" in ast.unparse(each)])
    edits.after(
        around(shutting, stopping),
        """
        from vllm.v1.engine.exceptions import EngineDeadError
        engine_client.output_processor.propagate_error(EngineDeadError())
        """,
    )
