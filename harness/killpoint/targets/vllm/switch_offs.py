"""Switch-offs of vLLM's findings: small edits, in memory, that take one bug out of its code each.

A switch-off is the causal test of a finding: what is violated with the bug, and holds without it,
belongs to that finding. It is also the fix that an issue suggests, as a diff. None of vLLM's text
is kept here: an edit finds its place by the syntax around it (:mod:`killpoint.targets.edits`), and
says where a release has no such place.
"""

from __future__ import annotations

import ast
import difflib
import textwrap
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


@_edits("altered-after-enqueue", _QUEUE)
def _payloads_are_copied(edits: Edits) -> None:
    for each in calls(edits.function("MessageQueue.enqueue"), "send_multipart"):
        edits.keyword(each, "copy", "True")


@_edits("undecoded-frame", _COORDINATOR)
def _frames_that_make_no_sense_are_dropped(edits: Edits) -> None:
    loop = edits.function("DPCoordinatorProc.process_input_socket")
    decoding = [each for each in calls(loop, "decode") if each.args]
    if not decoding:
        raise DoesNotFit("nothing is decoded")
    for each in decoding:
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
    for each in ast.walk(loop):
        if isinstance(each, ast.Assert):
            edits.instead(each, f"if not ({ast.unparse(each.test)}):\n    continue")
        if isinstance(each, ast.Compare) and "SCALE_ELASTIC_EP" in ast.unparse(each):
            edits.instead(each, f"{ast.unparse(each)} and type(decoded[1]) is int")


@_edits("dropped-for-slow-reader", _QUEUE)
def _remote_queues_have_no_bound(edits: Edits) -> None:
    making = edits.function("MessageQueue.__init__")
    bound = statement(
        making,
        lambda each: (
            isinstance(each, ast.Expr | ast.Assign) and "remote_socket.bind" in ast.unparse(each)
        ),
        "bind of the remote socket",
    )
    _imported(edits, "zmq")
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


@_edits("elapsed-by-wall-clock", _COORDINATOR)
@_edits("expiry-by-wall-clock", _GROUP)
def _intervals_are_monotonic(edits: Edits) -> None:
    places = ("DPCoordinatorProc", "StatelessProcessGroup")
    for each in calls(edits.first(*places), "time"):
        edits.instead(each.func, "time.monotonic")


@_edits("starved-publication", _COORDINATOR)
def _a_publication_that_is_due_is_made(edits: Edits) -> None:
    loop = edits.function("DPCoordinatorProc.process_input_socket")
    idle = statement(
        loop,
        lambda each: isinstance(each, ast.If) and ast.unparse(each.test) == "not events",
        "publication when nothing came",
    )
    assert isinstance(idle, ast.If)
    edits.instead(idle.test, "not events or (stats_changed and elapsed >= wait_for)")


@_edits("confused-senders", _GROUP)
def _keys_name_their_sender(edits: Edits) -> None:
    group = edits.klass("StatelessProcessGroup")
    for method, sender in (("send_obj", "self.rank"), ("recv_obj", "src")):
        for each in ast.walk(edits.function(f"{group.name}.{method}")):
            if isinstance(each, ast.JoinedStr) and "send_to" in ast.unparse(each):
                parts = [*each.values]
                name = ast.FormattedValue(ast.parse(sender, mode="eval").body, -1)
                parts[2:2] = [ast.Constant("/from/"), name]
                edits.instead(each, ast.unparse(ast.JoinedStr(parts)))


@_edits("late-payload", _QUEUE)
def _a_payload_that_is_due_is_taken_first(edits: Edits) -> None:
    taking = edits.function("MessageQueue.dequeue")
    each = _only(_receives(taking, "local_socket"))
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


@_edits("deadline-twice", _QUEUE)
def _a_payload_is_granted_what_is_left(edits: Edits) -> None:
    taking = edits.function("MessageQueue.dequeue")
    edits.begin(taking, "until = None if timeout is None else time.monotonic() + timeout")
    for each in _receives(taking, "local_socket"):
        left = "None if until is None else max(0.0, until - time.monotonic())"
        edits.instead(each.args[1], left)


@_edits("late-barrier", _GROUP)
def _a_barrier_looks_and_does_not_wait_for_the_store(edits: Edits) -> None:
    meeting = edits.function("StatelessProcessGroup.barrier")
    if all(given.arg != "timeout" for given in meeting.args.args):
        raise DoesNotFit("a barrier has no timeout")
    for each in calls(meeting, "get"):
        edits.before(
            around(meeting, each), "if not self.store.check([key]):\n    raise KeyError(key)"
        )
    taken = [each for each in calls(meeting, "broadcast_obj") if "None" in ast.unparse(each)]
    edits.before(
        around(meeting, _only(taken)),
        """
        until = time.monotonic() + timeout
        awaited = f"broadcast_from/0/{self.broadcast_recv_src_counter[0]}"
        while not self.store.check([awaited]):
            if time.monotonic() > until:
                raise RuntimeError(f"rank 0 did not come within {timeout:.2f} seconds")
            sched_yield()
        """,
    )


def _payloads(taking: ast.AST) -> list[ast.Call]:
    """The calls that take a payload, by a function of the queue's or from the socket itself."""
    bare = [c for c in calls(taking, "recv") if ast.unparse(c.func) == "self.local_socket.recv"]
    return bare or _receives(taking, "local_socket")


def _receives(taking: ast.AST, socket: str) -> list[ast.Call]:
    """The calls of ``recv`` on one of the queue's sockets."""
    found = [c for c in calls(taking, "recv") if c.args and socket in ast.unparse(c.args[0])]
    if not found:
        raise DoesNotFit(f"nothing is received from {socket}")
    return found


def _only(found: list[ast.Call]) -> ast.Call:
    if len(found) != 1:
        raise DoesNotFit(f"{len(found)} calls where one was expected")
    return found[0]


_RUNS = """
def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
"""
"""Whether a process still runs: neither gone nor waiting to be reaped."""


def _handles_name_their_writer(edits: Edits) -> None:
    edits.top(f"import os{_RUNS}")
    last = edits.klass("Handle").body[-1]
    edits.after(last, "writer_pid: int = field(default_factory=os.getpid)")


@_edits("deaf-reader", _QUEUE)
def _a_payload_is_awaited_from_a_writer_that_lives(edits: Edits) -> None:
    _handles_name_their_writer(edits)
    taking = edits.function("MessageQueue.dequeue")
    deadlines = any(given.arg == "timeout" for given in taking.args.args)
    until = "None if timeout is None else time.monotonic() + timeout" if deadlines else "None"
    for each in _payloads(taking):
        edits.before(
            around(taking, each),
            f"""
            payload_until = {until}
            while not self.local_socket.poll(timeout=100):
                if payload_until is not None and time.monotonic() >= payload_until:
                    raise TimeoutError
                if getattr(self, "shutting_down", False):
                    raise RuntimeError("cancelled")
                if not _runs(self.handle.writer_pid):
                    raise RuntimeError("the writer died before the payload of its message")
            """,
        )


@_edits("unwatched-writer", _QUEUE)
def _a_slot_is_awaited_from_a_writer_that_lives(edits: Edits) -> None:
    _handles_name_their_writer(edits)
    waiting = edits.first("MessageQueue._wait_until_readable", "MessageQueue.acquire_read")
    slept = statement(waiting, _is_pause, "wait for a slot")
    edits.after(
        slept,
        """
        unread = metadata_buffer[0] and not metadata_buffer[self.local_reader_rank + 1]
        if not unread and not _runs(self.handle.writer_pid):
            raise RuntimeError("the writer died")
        """,
    )
    left = "read_timeout.timeout_ms()"
    if left in ast.unparse(slept):
        often = ast.unparse(slept).replace(left, f"min({left} or 500, 500)")
        edits.instead(slept, often)


def _is_pause(each: ast.stmt) -> bool:
    """Whether a statement is the call in which a reader waits before it looks again."""
    if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)):
        return False
    return ast.unparse(each.value.func).rpartition(".")[2] in ("wait", "sched_yield", "spin")


_GRACE_S = 2
"""How long a queue waits that has neither a deadline nor a way to be shut down."""
_LOOKS_S = 0.1
"""How often a writer that finds the ring full looks at those who have not read."""


def _can_be_shut_down(edits: Edits) -> bool:
    try:
        edits.function("MessageQueue.shutdown")
    except DoesNotFit:
        return False
    return True


@_edits("deaf-start", _QUEUE)
def _the_handshake_can_be_ended(edits: Edits) -> None:
    _handles_name_their_writer(edits)
    meeting = edits.function("MessageQueue.wait_until_ready")
    for each in calls(meeting, "recv"):
        assert isinstance(each.func, ast.Attribute)
        edits.instead(each, f"self._awaited({ast.unparse(each.func.value)})")
    edits.before(
        meeting,
        """
        def _awaited(self, socket):
            while not socket.poll(timeout=100):
                if self.shutting_down:
                    raise RuntimeError("cancelled")
                if not _runs(self.handle.writer_pid):
                    raise RuntimeError("the writer died in the handshake")
            return socket.recv()
        """
        if _can_be_shut_down(edits)
        else f"""
        def _awaited(self, socket):
            if not socket.poll(timeout={_GRACE_S * 1000}):
                raise TimeoutError("a party of the handshake did not come")
            return socket.recv()
        """,
    )


@_edits("deaf-writer", _QUEUE)
def _a_slot_is_awaited_from_readers_that_live(edits: Edits) -> None:
    edits.top(f"import os{_RUNS}")
    _rings_name_their_readers(edits)
    waiting = edits.function("MessageQueue.acquire_write")
    edits.begin(waiting, "looked_at = time.monotonic()")
    for each in calls(waiting, "sched_yield"):
        line = around(waiting, each)
        if _can_be_shut_down(edits):
            edits.before(line, 'if self.shutting_down:\n    raise RuntimeError("cancelled")')
        edits.before(
            line,
            f"""
            if time.monotonic() > looked_at + {_LOOKS_S}:
                looked_at = time.monotonic()
                for reader, pid in enumerate(self.buffer.readers()):
                    if pid and not metadata_buffer[reader + 1] and not _runs(pid):
                        raise RuntimeError(f"reader {{reader}} (process {{pid}}) died")
            """,
        )


def _rings_name_their_readers(edits: Edits) -> None:
    """Behind the slots a ring has the process id of each reader, which it stores as it attaches."""
    making = edits.function("ShmRingBuffer.__init__")
    size = statement(
        making,
        lambda each: (
            isinstance(each, ast.Assign)
            and ast.unparse(each.targets[0]) == "self.total_bytes_of_buffer"
        ),
        "size of the ring",
    )
    edits.after(
        size,
        """
        self.readers_offset = self.total_bytes_of_buffer
        self.total_bytes_of_buffer += 8 * n_reader
        """,
    )
    edits.before(
        edits.function("ShmRingBuffer.__del__"),
        """
        def has_reader(self, rank):
            if hasattr(self, "shared_memory"):
                at = self.readers_offset + 8 * rank
                self.shared_memory.buf[at : at + 8] = os.getpid().to_bytes(8, "little")

        def readers(self):
            for at in range(self.readers_offset, self.total_bytes_of_buffer, 8):
                yield int.from_bytes(bytes(self.shared_memory.buf[at : at + 8]), "little")
        """,
    )
    attaching = edits.function("MessageQueue.create_from_handle")
    local = statement(
        attaching,
        lambda each: (
            isinstance(each, ast.Assign)
            and ast.unparse(each.targets[0]) == "self.local_reader_rank"
            and ".index(" in ast.unparse(each.value)
        ),
        "rank of a local reader",
    )
    edits.after(local, "self.buffer.has_reader(self.local_reader_rank)")


@_edits("deaf-writer", _POOL)
def _a_call_is_sent_by_its_deadline(edits: Edits) -> None:
    call = edits.function("MultiprocExecutor.collective_rpc")
    for each in calls(call, "enqueue"):
        left = "None if deadline is None else max(0.0, deadline - time.monotonic())"
        edits.keyword(each, "timeout", left)


@_edits("half-sent", _QUEUE)
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
    """The index of a writer moves on, if not with a publication, then with the next send."""
    writing = edits.function("MessageQueue.acquire_write")
    looked = statement(
        writing,
        lambda each: isinstance(each, ast.With) and "get_metadata" in ast.unparse(each.items[0]),
        "slot that is looked at",
    )
    step = statement(
        looked,
        lambda each: (
            isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "self.current_idx"
        ),
        "step to the next slot",
    )
    assert isinstance(step, ast.Assign)
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
    """The call by which one of a queue's sockets is given a message."""
    found = [
        each
        for each in ast.walk(sending)
        if isinstance(each, ast.Call) and ast.unparse(each.func).startswith(f"{socket}.send")
    ]
    return _only(found)


def _marks(how: int) -> Callable[[ast.stmt], bool]:
    """Whether a statement writes a slot's first byte: 1, a payload follows; 0, it is inline."""
    return lambda each: isinstance(each, ast.Assign) and ast.unparse(each) == f"buf[0] = {how}"


@_edits("unnamed-segment", _QUEUE)
def _a_segment_that_is_missing_is_named(edits: Edits) -> None:
    making = edits.function("ShmRingBuffer.__init__")
    edits.begin(making, "self.wanted = name")
    for place in ("get_data", "get_metadata"):
        edits.begin(
            edits.function(f"ShmRingBuffer.{place}"),
            """
            if not hasattr(self, "shared_memory"):
                raise FileNotFoundError(f"there is no segment {self.wanted} on this machine")
            """,
        )


@_edits("late-death-watch", _POOL)
def _the_parent_is_watched_from_the_first_line(edits: Edits) -> None:
    main = edits.function("WorkerProc.worker_main")
    making = statement(
        main,
        lambda each: isinstance(each, ast.Assign) and "WorkerProc(" in ast.unparse(each),
        "making of the worker",
    )
    edits.before(
        making,
        """
        def leave_with_the_parent():
            multiprocessing.connection.wait([death_pipe])
            if worker is None:
                os._exit(1)

        Thread(target=leave_with_the_parent, daemon=True).start()
        """,
    )


@_edits("told-after-grace", _POOL)
def _who_waits_for_a_reply_is_woken_first(edits: Edits) -> None:
    ending = edits.function("MultiprocExecutor.shutdown")
    each = _only(calls(ending, "_ensure_worker_termination"))
    edits.before(
        around(ending, each),
        """
        for mq in getattr(self, "response_mqs", []):
            mq.shutdown()
        """,
    )


@_edits("ipc-paths-stay", _QUEUE)
def _sockets_have_names_and_no_paths(edits: Edits) -> None:
    for each in calls(edits.function("MessageQueue.__init__"), "get_open_zmq_ipc_path"):
        edits.instead(each, f'{ast.unparse(each)}.replace("ipc://", "ipc://@", 1)')


@_edits("closed-unsent", _QUEUE)
def _sockets_send_what_they_have(edits: Edits) -> None:
    for each in calls(edits.function("_close_zmq"), "close"):
        edits.keyword(each, "linger", "2000")


@_edits("unreserved-memory", _QUEUE)
def _memory_is_reserved(edits: Edits) -> None:
    edits.top("import os")
    making = edits.function("ShmRingBuffer.__init__")
    for each in calls(making, "SharedMemory"):
        if any(given.arg == "create" for given in each.keywords):
            edits.after(
                around(making, each),
                """
                try:
                    os.posix_fallocate(self.shared_memory._fd, 0, self.shared_memory.size)
                except OSError as error:
                    self.shared_memory.close()
                    self.shared_memory.unlink()
                    del self.shared_memory
                    raise RuntimeError("there is too little shared memory") from error
                """,
            )


@_edits("sockets-by-umask", _QUEUE)
def _paths_are_their_owners(edits: Edits) -> None:
    edits.top("import os")
    for place in ("MessageQueue.__init__", "SpinCondition.__init__"):
        making = edits.function(place)
        for each in calls(making, "bind"):
            line = around(making, each)
            edits.before(line, "mask = os.umask(0o077)")
            edits.after(line, "os.umask(mask)")


@_edits("poisoned-slot", _QUEUE)
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
    """Whether a statement is a ``with`` that does nothing but to yield."""
    if not isinstance(each, ast.With) or len(each.body) != 1:
        return False
    inner = each.body[0]
    return isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Yield)


def _behind(inside: ast.AST, each: ast.stmt) -> list[ast.stmt]:
    """The statements that stand behind one in its own block."""
    for holder in ast.walk(inside):
        if isinstance(holder, ast.With | ast.While) and each in holder.body:
            return holder.body[holder.body.index(each) + 1 :]
    return []


@_edits("aliased-slot", _QUEUE)
def _arrays_are_copied_out_of_their_slot(edits: Edits) -> None:
    for each in calls(edits.function("MessageQueue.dequeue"), "append"):
        if not isinstance(each.args[0], ast.Subscript):
            raise DoesNotFit("what is kept of a slot is no part of it")
        edits.instead(each.args[0], f"bytearray({ast.unparse(each.args[0])})")


@_edits("negative-deadline", _QUEUE)
def _a_deadline_that_has_passed_is_none_left(edits: Edits) -> None:
    taking = edits.function("MessageQueue.recv")
    if any(
        isinstance(each, ast.Call) and ast.unparse(each.func) == "max" for each in ast.walk(taking)
    ):
        raise DoesNotFit("what is left is never negative")
    each = _only(calls(taking, "int"))
    edits.instead(each, f"max(0, {ast.unparse(each)})")


@_edits("unclosed-sockets", _QUEUE)
def _sockets_are_closed_before_their_context(edits: Edits) -> None:
    if (
        "_close_zmq" in (text := ast.unparse(edits.klass("MessageQueue")))
        or "Context()" not in text
    ):
        raise DoesNotFit("the queue closes its sockets")
    edits.top(
        """
        import weakref

        def _ended(context, ends):
            for each in ends:
                each.close(linger=0)
            context.term()

        def _ends_with(queue, context):
            spin = getattr(queue, "_spin_condition", None)
            held = [*vars(queue).values(), *(vars(spin).values() if spin else ())]
            ends = [each for each in held if hasattr(each, "send_multipart")]
            weakref.finalize(queue, _ended, context, ends).atexit = False
        """
    )
    edits.after(edits.function("MessageQueue.__init__").body[-1], "_ends_with(self, context)")
    attaching = edits.function("MessageQueue.create_from_handle")
    edits.before(attaching.body[-1], "_ends_with(self, context)")


@_edits("unpolled-notices", _QUEUE)
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


@_edits("stranded-requests", _COORDINATOR)
def _a_start_that_was_sent_is_no_start_that_was_made(edits: Edits) -> None:
    loop = edits.function("DPCoordinatorProc.process_input_socket")
    waking = statement(
        loop,
        lambda each: isinstance(each, ast.If) and ast.unparse(each.test) == "not engines_running",
        "wake of paused engines",
    )
    assert isinstance(waking, ast.If)
    believed = ("engines_running = True", "wave_state_changed = True")
    early = [each for each in waking.body if ast.unparse(each) in believed]
    if not early:
        raise DoesNotFit("a start is believed when engines tell it")
    for each in early:
        edits.instead(each, "")


@_edits("half-greeted", _QUEUE)
def _what_was_done_of_a_handshake_is_remembered(edits: Edits) -> None:
    meeting = edits.function("MessageQueue.wait_until_ready")
    exchanged = ("recv", "send", "_awaited")  # the last one is deaf-start's
    for each in ast.walk(meeting):
        if (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and each.func.attr in exchanged
        ):
            given = ", ".join(map(ast.unparse, (each.func, *each.args)))
            edits.instead(each, f"step({given})")
    edits.begin(
        meeting,
        """
        done = self.handshake = getattr(self, "handshake", [])
        earlier = iter([*done])

        def step(call, *given):
            for result in earlier:
                return result
            done.append(call(*given))
            return done[-1]
        """,
    )


def _imported(edits: Edits, module: str) -> None:
    """Has a module imported whole, if it is not."""
    if not edits.imports(module):
        edits.top(f"import {module}")
