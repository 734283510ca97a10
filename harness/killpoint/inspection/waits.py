"""Kind of a thread's wait, by its stack: the frames that tell it, by file and function."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MESSAGE, SLOT, COLLECTIVE = "message", "slot", "collective"
SOCKET, FUTURE, LOCK, GROUP = "socket", "future", "lock", "group"


class _Sign(NamedTuple):
    file: str
    """Ending of the file's path, or a part of it between slashes."""
    functions: frozenset[str]
    kind: str
    named: bool = False
    """True if the function's name belongs to the description of the wait."""


def _sign(file: str, functions: str, kind: str, *, named: bool = False) -> _Sign:
    return _Sign(file, frozenset(functions.split()), kind, named)


_SIGNS = (
    _sign("refengine/ring/reader.py", "claim", MESSAGE),
    _sign("refengine/ring/writer.py", "claim send", SLOT),
    _sign("device_communicators/shm_broadcast.py", "acquire_read dequeue recv", MESSAGE),
    _sign("device_communicators/shm_broadcast.py", "acquire_write", SLOT),
    _sign(
        "torch/distributed/distributed_c10d.py",
        "all_reduce all_gather all_gather_into_tensor all_gather_object all_to_all"
        " all_to_all_single barrier monitored_barrier broadcast broadcast_object_list gather"
        " reduce reduce_scatter reduce_scatter_tensor scatter recv send new_group"
        " init_process_group",
        COLLECTIVE,
        named=True,
    ),
    _sign(
        "refengine/group/group.py",
        "barrier all_gather_obj broadcast_obj recv_obj wait_until_ready",
        GROUP,
        named=True,
    ),
    _sign(
        "vllm/distributed/utils.py",
        "barrier all_gather_obj broadcast_obj recv_obj",
        GROUP,
        named=True,
    ),
    _sign("refengine/executor/tensors/shared_sum.py", "reduce", COLLECTIVE, named=True),
    _sign(
        "device_communicators/cpu_communicator.py",
        "all_reduce gather all_gather all_gather_into_tensor",
        COLLECTIVE,
        named=True,
    ),
    _sign("/zmq/", "recv recv_multipart poll recv_pyobj recv_json", SOCKET),
    _sign("concurrent/futures/_base.py", "result wait exception", FUTURE),
    _sign("/threading.py", "wait acquire join", LOCK),
    _sign("/queue.py", "get put", LOCK),
)


def waits(frames: Iterable[tuple[str, str]]) -> str:
    """Return the kind of a wait, from its frames as (function, path), innermost first.

    The outermost frame that says more than a lock or a socket does decides: a collective that
    waits on a condition is a collective.
    """
    weak = ""
    for function, path in frames:
        sign = _found(function.rpartition(".")[2], path)
        if sign is None:
            continue
        if sign.kind not in (SOCKET, FUTURE, LOCK):
            return f"{sign.kind} {function.rpartition('.')[2]}" if sign.named else sign.kind
        weak = weak or sign.kind
    return weak


def _found(function: str, path: str) -> _Sign | None:
    for sign in _SIGNS:
        where = sign.file in path if sign.file.endswith("/") else path.endswith(sign.file)
        if where and function in sign.functions:
            return sign
    return None
