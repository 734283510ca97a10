"""Switch-offs of a queue's handling of messages: payloads, slots, deadlines, notices."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable

from killpoint.targets.edits import DoesNotFit, Edits, around, assignment, calls, statement
from killpoint.targets.vllm.switch_offs.places import imported, only, receives
from killpoint.targets.vllm.switch_offs.table import QUEUE, edits_of


@edits_of("altered-after-enqueue", QUEUE)
def _payloads_are_copied(edits: Edits) -> None:
    for each in calls(edits.function("MessageQueue.enqueue"), "send_multipart"):
        edits.keyword(each, "copy", "True")


@edits_of("dropped-for-slow-reader", QUEUE)
def _remote_queues_have_no_bound(edits: Edits) -> None:
    making = edits.function("MessageQueue.__init__")
    bound = statement(
        making,
        lambda each: (
            isinstance(each, ast.Expr | ast.Assign) and "remote_socket.bind" in ast.unparse(each)
        ),
        "bind of the remote socket",
    )
    imported(edits, "zmq")
    edits.before(bound, "self.remote_socket.setsockopt(zmq.SNDHWM, 0)")


@edits_of("late-payload", QUEUE)
def _a_payload_that_is_due_is_taken_first(edits: Edits) -> None:
    taking = edits.function("MessageQueue.dequeue")
    each = only(receives(taking, "local_socket"))
    line = around(taking, each)
    edits.instead(
        line,
        f"""
        self.payload_is_due = True
        try:
            {ast.unparse(line)}
        except TimeoutError:
            raise
        except Exception:
            self.payload_is_due = False
            raise
        self.payload_is_due = False
        """,
    )
    edits.begin(
        taking,
        """
        if getattr(self, "payload_is_due", False):
            obj = MessageQueue.recv(self.local_socket, timeout)
            self.payload_is_due = False
            return obj
        """,
    )


@edits_of("deadline-twice", QUEUE)
def _a_payload_is_granted_what_is_left(edits: Edits) -> None:
    taking = edits.function("MessageQueue.dequeue")
    edits.begin(taking, "until = None if timeout is None else time.monotonic() + timeout")
    for each in receives(taking, "local_socket"):
        left = "None if until is None else max(0.0, until - time.monotonic())"
        edits.instead(each.args[1], left)


@edits_of("half-sent", QUEUE)
def _what_a_send_still_owes_is_done_by_the_next_one(edits: Edits) -> None:
    _published_slots_are_left(edits)
    sending = edits.function("MessageQueue.enqueue")
    payload, remote = (_send(sending, f"self.{name}_socket") for name in ("local", "remote"))
    assert isinstance(remote.args[0], ast.Name)
    message = remote.args[0].id
    owed = f"self.remote = {message} if self.n_remote_reader > 0 else None"
    for mark, first in ((1, message), (0, "None")):
        marked = statement(sending, _marks(mark), "mark in a slot")
        edits.after(marked, f"self.payload, {owed.replace(' =', f' = {first},', 1)}")
    again: list[str] = []
    for name, each in (("payload", payload), ("remote", remote)):
        # In one statement, so that nothing can come between the two.
        edits.instead(around(sending, each), f"self.{name} = {ast.unparse(each)}")
        words = ast.unparse(each).replace(f"({message}", f"(self.{name}", 1)
        again += [f"if self.{name} is not None:", f"    self.{name} = {words}"]
    told = textwrap.indent("\n".join(again), "    ")
    edits.begin(
        sending,
        f"""
if self.was_published():
{told}
self.payload = self.remote = None
""",
    )


def _published_slots_are_left(edits: Edits) -> None:
    """Move the index of a writer on: with a publication, or else with the next send."""
    writing = edits.function("MessageQueue.acquire_write")
    looked = statement(
        writing,
        lambda each: isinstance(each, ast.With) and "get_metadata" in ast.unparse(each.items[0]),
        "slot that is looked at",
    )
    step = assignment(looked, "self.current_idx", "step to the next slot")
    moved = f"self.current_idx, self.filling = ({ast.unparse(step.value)}), None"
    edits.instead(step, moved)
    taken = statement(
        looked, lambda each: ast.unparse(each) == "metadata_buffer[0] = 0", "slot that is taken"
    )
    edits.after(taken, "self.filling = self.current_idx")
    edits.before(
        edits.function("MessageQueue.enqueue"),
        f"""
        def was_published(self):
            if getattr(self, "filling", None) is not None:
                with self.buffer.get_metadata(self.filling) as flags:
                    published = flags[0] == 1
                if not published:
                    return False
                {moved}
            return hasattr(self, "payload")
        """,
    )


def _send(sending: ast.AST, socket: str) -> ast.Call:
    """Return the call by which one of a queue's sockets is given a message."""
    found = [
        each
        for each in ast.walk(sending)
        if isinstance(each, ast.Call) and ast.unparse(each.func).startswith(f"{socket}.send")
    ]
    return only(found)


def _marks(how: int) -> Callable[[ast.stmt], bool]:
    """Return a test for a write of a slot's first byte: 1, a payload follows; 0, it is inline."""
    return lambda each: isinstance(each, ast.Assign) and ast.unparse(each) == f"buf[0] = {how}"


@edits_of("half-received", QUEUE)
def _what_was_taken_and_not_handed_out_is_kept(edits: Edits) -> None:
    taking, given = edits.function("MessageQueue.dequeue"), edits.function("MessageQueue.recv")
    _marked_with_what_is_at_hand(edits)
    loads = only(calls(given, "loads"))
    taken = around(given, only(calls(given, "recv_multipart")))
    edits.instead(taken, "")
    edits.instead(around(given, loads), "return _decoded(*socket.recv_multipart(copy=False))")
    for each in ast.walk(taking):
        if isinstance(each, ast.Return) and each.value and ast.unparse(each.value) == "obj":
            edits.instead(each, "return self.handed_out()")
        if not isinstance(each, ast.Assign) or ast.unparse(each.targets[0]) != "obj":
            continue
        words = ast.unparse(each.value)
        if "recv(" in words:
            edits.instead(each, f"self.taken, self.due = {words}, False")
        else:
            edits.instead(each, "self.at_hand = _decoded(*all_buffers)")
    edits.begin(
        taking,
        """
        if getattr(self, "due", False):
            self.taken, self.due = MessageQueue.recv(self.local_socket, timeout), False
        if getattr(self, "taken", None):
            return self.handed_out()
        self.at_hand = ()
        """,
    )
    edits.before(
        taking,
        """
        def handed_out(self):
            (obj, error), self.taken, self.at_hand = self.taken, None, None
            if error is not None:
                raise error
            return obj
        """,
    )
    edits.before(
        edits.klass("MessageQueue"),
        """
        def _decoded(message, *buffers):
            try:
                return pickle.loads(message, buffers=buffers), None
            except Exception as error:
                return None, error
        """,
    )


def _marked_with_what_is_at_hand(edits: Edits) -> None:
    """Mark a slot, leave it and keep its message in one statement, once it is at hand."""
    reading = edits.function("MessageQueue.acquire_read")
    handed = statement(reading, lambda each: ast.unparse(each) == "yield buf", "slot that is read")
    marks = [each for each in ast.walk(reading) if isinstance(each, ast.Assign) and _moves(each)]
    tries = [each for each in ast.walk(reading) if isinstance(each, ast.Try)]
    if not tries:
        edits.after(handed, _MARKED)
    for number, each in enumerate(marks):
        edits.instead(each, _MARKED if tries and not number else "")


_MARKED = """
if buf[0] == 1 or getattr(self, "at_hand", None) != ():
    (self.taken, self.due, self.current_idx, metadata_buffer[self.local_reader_rank + 1]) = (
        None if buf[0] == 1 else getattr(self, "at_hand", None),
        buf[0] == 1,
        (self.current_idx + 1) % self.buffer.max_chunks,
        1,
    )
"""


def _moves(each: ast.Assign) -> bool:
    """Return whether a reader marks its slot, or goes on to the next one."""
    mark = "metadata_buffer[self.local_reader_rank + 1]"
    return ast.unparse(each.targets[0]) in (mark, "next_idx", "self.current_idx")


@edits_of("poisoned-slot", QUEUE)
def _a_slot_counts_as_read_whatever_its_reader_raises(edits: Edits) -> None:
    taking = edits.function("MessageQueue.acquire_read")
    given = statement(taking, _gives_a_slot, "slot that is given to the caller")
    done = [each for each in _behind(taking, given) if not isinstance(each, ast.Break)]
    if not done:
        raise DoesNotFit("nothing is done after the slot was read")
    body = textwrap.indent(ast.unparse(given), "    ")
    marks = textwrap.indent("\n".join(ast.unparse(each) for each in done), "    ")
    edits.instead(given, f"try:\n{body}\nfinally:\n{marks}")
    for each in done:
        edits.instead(each, "")


def _gives_a_slot(each: ast.stmt) -> bool:
    """Return whether a statement is a ``with`` that does nothing but to yield."""
    if not isinstance(each, ast.With) or len(each.body) != 1:
        return False
    inner = each.body[0]
    return isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Yield)


def _behind(inside: ast.AST, each: ast.stmt) -> list[ast.stmt]:
    """Return the statements that stand behind one in its own block."""
    for holder in ast.walk(inside):
        if isinstance(holder, ast.With | ast.While) and each in holder.body:
            return holder.body[holder.body.index(each) + 1 :]
    return []


@edits_of("aliased-slot", QUEUE)
def _arrays_are_copied_out_of_their_slot(edits: Edits) -> None:
    for each in calls(edits.function("MessageQueue.dequeue"), "append"):
        if not isinstance(each.args[0], ast.Subscript):
            raise DoesNotFit("what is kept of a slot is no part of it")
        edits.instead(each.args[0], f"bytearray({ast.unparse(each.args[0])})")


@edits_of("negative-deadline", QUEUE)
def _a_deadline_that_has_passed_is_none_left(edits: Edits) -> None:
    taking = edits.function("MessageQueue.recv")
    if any(
        isinstance(each, ast.Call) and ast.unparse(each.func) == "max" for each in ast.walk(taking)
    ):
        raise DoesNotFit("what is left is never negative")
    each = only(calls(taking, "int"))
    edits.instead(each, f"max(0, {ast.unparse(each)})")


@edits_of("unpolled-notices", QUEUE)
def _notices_are_taken_while_a_reader_is_busy(edits: Edits) -> None:
    reading = edits.function("SpinCondition.record_read")
    if "poll" in ast.unparse(reading):
        raise DoesNotFit("a busy reader polls")
    edits.begin(
        reading,
        """
        if self.local_notify_socket.poll(timeout=0):
            self.local_notify_socket.recv(flags=zmq.NOBLOCK, copy=False)
        """,
    )
