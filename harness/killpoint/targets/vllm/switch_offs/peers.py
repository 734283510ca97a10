"""Switch-offs of waits: for a peer that died, that never comes, and in the handshake."""

from __future__ import annotations

import ast

from killpoint.targets.edits import DoesNotFit, Edits, around, assignment, calls, statement
from killpoint.targets.vllm.switch_offs.places import imported, only, payloads
from killpoint.targets.vllm.switch_offs.table import QUEUE, edits_of

_RUNS = """
def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
"""
"""Function that tells whether a process still runs: neither gone nor waiting to be reaped."""


def _handles_name_their_writer(edits: Edits) -> None:
    edits.top(f"import os{_RUNS}")
    last = edits.klass("Handle").body[-1]
    edits.after(last, "writer_pid: int = field(default_factory=os.getpid)")


@edits_of("deaf-reader", QUEUE)
def _a_payload_is_awaited_from_a_writer_that_lives(edits: Edits) -> None:
    _handles_name_their_writer(edits)
    taking = edits.function("MessageQueue.dequeue")
    deadlines = any(given.arg == "timeout" for given in taking.args.args)
    left = "(payload_until or float('inf')) - time.monotonic()"
    awaited = {"local_socket": _WRITER_DIED}
    if _can_be_shut_down(edits):
        awaited["remote_socket"] = _CONNECTION_LOST  # its writer may be on another machine
    for socket, looked in awaited.items():
        for each in payloads(taking, socket):
            own = ast.unparse(each.args[1]) if each.args[1:] else "timeout" if deadlines else "None"
            edits.before(
                around(taking, each),
                f"""
                granted = {own}
                payload_until = None if granted is None else time.monotonic() + granted
                while not self.{socket}.poll(int(1000 * max(0, min(0.1, {left})))):
                    if payload_until is not None and time.monotonic() >= payload_until:
                        raise TimeoutError
                    if getattr(self, "shutting_down", False):
                        raise RuntimeError("cancelled"){looked}
                """,
            )


_WRITER_DIED = """
                    if not _runs(self.handle.writer_pid):
                        raise RuntimeError("the writer died before the payload of its message")"""
_CONNECTION_LOST = """
                    getattr(self, "look_at_connection", bool)()"""
"""Check of its connection by a remote reader that has such a check, in this wait too."""


@edits_of("unwatched-writer", QUEUE)
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
    """Return whether a statement is the call in which a reader waits before it looks again."""
    if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)):
        return False
    return ast.unparse(each.value.func).rpartition(".")[2] in ("wait", "sched_yield", "spin")


_GRACE_S = 2
"""Seconds for which a queue waits that has neither a deadline nor a way to be shut down."""
_LOOKS_S = 0.1
"""Seconds between looks of a writer that finds the ring full at readers that have not read, and of
a remote reader at its connection."""
_COMES_BACK_S = 1
"""Seconds for which a connection may be lost: libzmq makes it again within a fraction of this,
unless there is no peer."""


@edits_of("unwatched-connection", QUEUE)
def _a_connection_that_is_lost_and_not_made_again_is_told(edits: Edits) -> None:
    for module in ("sys", "zmq"):
        imported(edits, module)
    taking = edits.function("MessageQueue.dequeue")
    deadlines = any(given.arg == "timeout" for given in taking.args.args)
    for each in payloads(taking, "remote_socket"):
        given = "timeout" if deadlines else "None"
        edits.before(around(taking, each), f"self.await_remote({given})")
    attaching = edits.function("MessageQueue.create_from_handle")
    made = [c for c in calls(attaching, "connect") if "remote_socket" in ast.unparse(c.func)]
    edits.before(
        around(attaching, only(made)),
        """
        told = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        self.connection = self.remote_socket.get_monitor_socket(told)
        """,
    )
    both = "[self.local_socket, self.remote_socket]"
    for each in ast.walk(edits.klass("MessageQueue")):
        if isinstance(each, ast.List) and ast.unparse(each) == both:
            edits.instead(each, f'{both[:-1]}, getattr(self, "connection", None)]')
    edits.before(
        taking,
        f"""
        def look_at_connection(self):
            now = time.monotonic()
            while self.connection.poll(0):
                event = int.from_bytes(self.connection.recv_multipart()[0][:2], sys.byteorder)
                self.lost_at = now if event == zmq.EVENT_DISCONNECTED else None
            if now > (getattr(self, "lost_at", None) or now) + {_COMES_BACK_S}:
                raise RuntimeError("the connection to the writer was lost")

        def await_remote(self, timeout):
            until = time.monotonic() + (sys.maxsize if timeout is None else timeout)
            while not self.remote_socket.poll(
                int(1000 * max(0, min({_LOOKS_S}, until - time.monotonic())))
            ):
                self.look_at_connection()
                if time.monotonic() >= until:
                    raise TimeoutError
        """,
    )


def _can_be_shut_down(edits: Edits) -> bool:
    try:
        edits.function("MessageQueue.shutdown")
    except DoesNotFit:
        return False
    return True


@edits_of("deaf-start", QUEUE)
def _the_handshake_can_be_ended(edits: Edits) -> None:
    _handles_name_their_writer(edits)
    meeting = edits.function("MessageQueue.wait_until_ready")
    for each in calls(meeting, "recv"):
        assert isinstance(each.func, ast.Attribute)
        edits.instead(each, f"self._awaited({ast.unparse(each.func.value)}, until)")
    edits.parameter(meeting, "timeout=None")
    grace = None if _can_be_shut_down(edits) else _GRACE_S
    edits.begin(meeting, f"until = {_until(grace)}")
    edits.before(
        meeting,
        """
        def _awaited(self, socket, until):
            while not socket.poll(timeout=100):
                if getattr(self, "shutting_down", False):
                    raise RuntimeError("cancelled")
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError("a party of the handshake did not come")
                if not _runs(self.handle.writer_pid):
                    raise RuntimeError("the writer died in the handshake")
            return socket.recv()
        """,
    )


def _until(grace: float | None) -> str:
    """Return when a wait ends: by the deadline ``timeout``, or by this one if it has none."""
    ends = "time.monotonic() +"
    return f"{ends} timeout if timeout is not None else " + (f"{ends} {grace}" if grace else "None")


@edits_of("counted-departure", QUEUE)
def _who_leaves_in_the_handshake_is_told(edits: Edits) -> None:
    meeting = edits.function("MessageQueue.wait_until_ready")
    counting = [each for each in ast.walk(meeting) if isinstance(each, ast.For)]
    arrivals = [each for loop in counting for each in ast.walk(loop) if _is_receive(each)]
    if not arrivals:
        raise DoesNotFit("arrivals are not counted")
    for each in arrivals:
        assert isinstance(each, ast.Call)
        edits.instead(each, f"self._arrived({ast.unparse(each)})")
    edits.before(
        meeting,
        """
        def _arrived(self, word):
            if word[:1] != b"\\x01":
                raise RuntimeError("a reader left in the handshake")
        """,
    )


def _is_receive(each: ast.AST) -> bool:
    """Return whether a node of the handshake takes a message; deaf-start has its own way."""
    if not (isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)):
        return False
    return each.func.attr in ("recv", "_awaited")


@edits_of("deaf-writer", QUEUE)
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
    """Put the pid of each reader behind the slots; a reader stores it as it attaches."""
    making = edits.function("ShmRingBuffer.__init__")
    size = assignment(making, "self.total_bytes_of_buffer", "size of the ring")
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
    local = assignment(attaching, "self.local_reader_rank", "rank of a local reader", ".index(")
    edits.after(local, "self.buffer.has_reader(self.local_reader_rank)")


@edits_of("half-greeted", QUEUE)
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
