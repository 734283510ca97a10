"""Switch-offs of vLLM's findings: small edits, in memory, that take one bug out of its code each.

A switch-off is the causal test of a finding: what is violated with the bug, and holds without it,
belongs to that finding. It is also the fix that an issue suggests, as a diff. None of vLLM's text
is kept here: an edit finds its place by the syntax around it (:mod:`killpoint.targets.edits`), and
says where a release has no such place.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Sequence
from pathlib import Path

from killpoint.errors import BadUsage
from killpoint.targets.edits import DoesNotFit, Edits, around, calls, statement

Edit = Callable[[Edits], None]
_QUEUE = "shm_broadcast.py"
_POOL = "multiproc_executor.py"
_COORDINATOR = "coordinator.py"
_GROUP = "utils.py"

SWITCH_OFFS: dict[str, dict[str, Edit]] = {}
"""By the finding's id, the edit of each file."""


def _edits(id: str, file: str) -> Callable[[Edit], Edit]:
    def keep(edit: Edit) -> Edit:
        SWITCH_OFFS.setdefault(id, {})[file] = edit
        return edit

    return keep


def known(ids: Sequence[str]) -> None:
    """Nothing, if each of these findings has a switch-off.

    Raises:
        BadUsage: one has none.
    """
    for id in ids:
        if id not in SWITCH_OFFS:
            expected = ", ".join(sorted(SWITCH_OFFS))
            raise BadUsage(f"no switch-off {id!r}; expected one of: {expected}")


def applied(off: Sequence[str], path: Path, content: bytes) -> bytes:
    """A file with these findings' bugs taken out; as it was where no edit is for it, or fits it."""
    for id in off:
        content = _edited(id, path, content)
    return content


def fits(id: str, path: Path, content: bytes) -> bool:
    """Whether a file has the place that a switch-off edits."""
    return _edited(id, path, content) != content


def diff(id: str, path: Path, content: bytes, name: str) -> str:
    """The switch-off as a unified diff of one file, empty if it does not touch it."""
    before, after = content.decode(), _edited(id, path, content).decode()
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{name}",
        f"b/{name}",
    )
    return "".join(lines)


def _edited(id: str, path: Path, content: bytes) -> bytes:
    edit = SWITCH_OFFS[id].get(path.name)
    if edit is None:
        return content
    edits = Edits(content.decode())
    try:
        edit(edits)
        return edits.text().encode()
    except DoesNotFit:
        return content


@_edits("late-replies", _POOL)
def _replies_are_numbered(edits: Edits) -> None:
    call = edits.function("MultiprocExecutor.collective_rpc")
    taking = edits.function("MultiprocExecutor.collective_rpc.get_response")
    for each in calls(taking, "dequeue"):
        edits.instead(each.func, "take_reply")
        edits.keyword(each, "mq", "mq")
    edits.before(
        taking,
        """
        due = {}
        for mq in response_mqs:
            due[mq] = mq.replies_due = getattr(mq, "replies_due", 0) + 1

        def take_reply(timeout, mq):
            while True:
                reply = mq.dequeue(timeout=timeout)
                mq.replies_taken = getattr(mq, "replies_taken", 0) + 1
                if mq.replies_taken == due[mq]:
                    return reply
        """,
    )
    del call


@_edits("altered-after-enqueue", _QUEUE)
def _payloads_are_copied(edits: Edits) -> None:
    for each in calls(edits.function("MessageQueue.enqueue"), "send_multipart"):
        edits.keyword(each, "copy", "True")


@_edits("deaf-coordinator", _COORDINATOR)
def _frames_that_cannot_be_decoded_are_dropped(edits: Edits) -> None:
    loop = edits.klass("DPCoordinatorProc")
    for each in calls(loop, "decode"):
        line = around(loop, each)
        edits.instead(
            line,
            f"""
            try:
                {ast.unparse(line)}
            except Exception:
                logger.warning("A frame that cannot be decoded was dropped.")
                continue
            """,
        )


@_edits("dropped-for-slow-reader", _QUEUE)
def _remote_queues_have_no_bound(edits: Edits) -> None:
    making = edits.function("MessageQueue.__init__")
    bound = statement(
        making,
        lambda each: isinstance(each, ast.Expr) and "remote_socket.bind" in ast.unparse(each),
        "bind of the remote socket",
    )
    edits.before(bound, "self.remote_socket.setsockopt(zmq.SNDHWM, 0)")


@_edits("fork-copy-unlinks", _QUEUE)
def _only_the_creator_unlinks(edits: Edits) -> None:
    edits.begin(edits.function("ShmRingBuffer.__init__"), "self.made_in = os.getpid()")
    for each in calls(edits.function("ShmRingBuffer.__del__"), "unlink"):
        line = around(edits.function("ShmRingBuffer.__del__"), each)
        edits.instead(
            line,
            f"""
            if self.made_in == os.getpid():
                {ast.unparse(line)}
            """,
        )
    edits.top("import os")
