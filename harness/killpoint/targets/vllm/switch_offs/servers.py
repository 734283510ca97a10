"""Switch-offs in a whole engine: of its own findings, and of those of its parts.

A finding of a part is switched off in the whole engine too, so that a play shows how far it
reaches. Files are named by their path below the package: a whole engine has several of a name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import TypeVar

from killpoint.targets.edits import DoesNotFit, Edits, around, calls
from killpoint.targets.vllm.switch_offs.places import imported, only
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
_NETWORK = "utils/network_utils.py"
_CLIENT = "v1/engine/core_client.py"
_FRONT = "v1/engine/async_llm.py"
_ANSWERS = "entrypoints/generate/base/serving.py"

_Node = TypeVar("_Node", bound=ast.AST)

SERVER_SWITCH_OFFS: dict[str, dict[str, Edit]] = {}
"""Edit of each file, by the finding's id; only a whole engine shows these findings."""


def switchable() -> list[str]:
    """Return the findings that can be switched off in a whole engine, its own ones first."""
    return [*SERVER_SWITCH_OFFS, *SWITCH_OFFS]


def files_of(id: str) -> dict[PurePosixPath, Edit]:
    """Return the edit of each file that a switch-off touches, by its path below the package."""
    parts = SWITCH_OFFS.get(id, {}).items()
    edits = SERVER_SWITCH_OFFS.get(id, {}) | {_PARTS[name]: edit for name, edit in parts}
    return {PurePosixPath(file): edit for file, edit in edits.items()}


def edited_files(
    off: Sequence[str], read: Callable[[PurePosixPath], bytes | None]
) -> tuple[dict[PurePosixPath, bytes], list[str]]:
    """Return the files of an engine with findings switched off, and the findings that no edit fits.

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


@_edits_of("swallowed-sigterm", _NETWORK)
def _an_interrupt_goes_on_through_the_context_of_a_socket(edits: Edits) -> None:
    catching = _the(edits.function("zmq_socket_ctx"), ast.ExceptHandler, "except KeyboardInterrupt")
    edits.after(catching.body[-1], "raise")


@_edits_of("ended-as-if-well", _LAUNCHER)
def _the_end_of_a_dead_engine_is_an_error(edits: Edits) -> None:
    edits.before(
        _the(edits.function("serve_http"), ast.Return, "return dummy_shutdown()"),
        """
        if engine_client is not None and engine_client.errored and not shutdown_event.is_set():
            raise engine_client.dead_error
        """,
    )


@_edits_of("blind-health", _FRONT)
def _health_is_bad_once_no_open_request_has_got_a_token_for_ten_seconds(edits: Edits) -> None:
    edits.begin(
        edits.function("AsyncLLM.check_health"),
        """
        import time
        from vllm.v1.engine.exceptions import EngineDeadError
        now = time.monotonic()
        got = {
            id: each.detokenizer and each.detokenizer.num_output_tokens()
            for id, each in self.output_processor.request_states.items()
        }
        if not got or got != getattr(self, "_got", None):
            self._got, self._got_at = got, now
        elif now - self._got_at > 10:
            raise EngineDeadError()
        """,
    )


@_edits_of("failed-in-its-drain", _FRONT)
def _what_comes_in_the_drain_is_refused(edits: Edits) -> None:
    ending = edits.function("AsyncLLM.shutdown")
    edits.instead(_the(ending, ast.Expr, "renderer.shutdown()"), "self._ends = True")
    for name, refuses in (("check_admission", "raise"), ("dead_error", "return")):
        edits.begin(
            edits.function(f"AsyncLLM.{name}"),
            f"""
            if getattr(self, "_ends", False):
                {refuses} QueueOverflowError()
            """,
        )


@_edits_of("paths-by-umask", _NETWORK)
def _a_path_is_its_owners_alone(edits: Edits) -> None:
    edits.instead(
        _the(edits.function("make_zmq_socket"), ast.Expr, "socket.bind(path)"),
        """
        left = os.umask(0o077)
        try:
            socket.bind(path)
        finally:
            os.umask(left)
        """,
    )
    imported(edits, "os")


@_edits_of("told-after-the-others", _CLIENT)
def _who_waits_is_told_before_the_other_cores_are_ended(edits: Edits) -> None:
    watching = edits.function("MPClient.start_engine_core_monitor.monitor_engine_cores")
    edits.before(
        _the(watching, ast.Expr, "_self.shutdown()"),
        """
        task = _self.resources.output_queue_task
        if task is not None:
            put = _self.outputs_queue.put_nowait
            task.get_loop().call_soon_threadsafe(put, EngineDeadError())
        """,
    )


@_edits_of("unanswered-utility-call", _CLIENT)
def _who_waits_for_a_call_is_told_that_its_core_is_gone(edits: Edits) -> None:
    taking = edits.function("AsyncMPClient._ensure_output_queue_task.process_outputs_socket")
    for passed_on in ("outputs_queue.put_nowait(e)", "outputs_queue.put_nowait(EngineDeadError())"):
        edits.after(
            _the(taking, ast.Expr, passed_on),
            """
            for call in utility_results.values():
                if not call.done():
                    call.set_exception(EngineDeadError())
            """,
        )


@_edits_of("aborted-as-whole", _ANSWERS)
def _what_was_aborted_is_an_error(edits: Edits) -> None:
    checking = edits.function("GenerateBaseServing._raise_if_error")
    asked = _the(checking, ast.Compare, "finish_reason == 'error'")
    edits.instead(asked, 'finish_reason in ("error", "abort")')


def _the(inside: ast.AST, kind: type[_Node], begins: str) -> _Node:
    """Return the one node of a kind whose text begins so.

    Raises:
        DoesNotFit: there is none, or more than one.
    """
    of_kind = [each for each in ast.walk(inside) if isinstance(each, kind)]
    found = [each for each in of_kind if ast.unparse(each).startswith(begins)]
    if len(found) != 1:
        raise DoesNotFit(f"{len(found)} places begin {begins!r}, where one was expected")
    return found[0]
