"""Switch-offs of a queue's resources: segments, memory, sockets and their paths."""

from __future__ import annotations

import ast

from killpoint.targets.edits import DoesNotFit, Edits, around, calls, statement
from killpoint.targets.vllm.switch_offs.table import QUEUE, edits_of


@edits_of("fork-copy-unlinks", QUEUE)
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


@edits_of("unnamed-segment", QUEUE)
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


@edits_of("unregistered-segment", QUEUE)
def _who_removes_segments_is_there_first(edits: Edits) -> None:
    edits.top("from multiprocessing import resource_tracker")
    making = edits.function("ShmRingBuffer.__init__")
    edits.begin(making, "resource_tracker.ensure_running()")


@edits_of("ipc-paths-stay", QUEUE)
def _sockets_have_names_and_no_paths(edits: Edits) -> None:
    for each in calls(edits.function("MessageQueue.__init__"), "get_open_zmq_ipc_path"):
        edits.instead(each, f'{ast.unparse(each)}.replace("ipc://", "ipc://@", 1)')


@edits_of("closed-unsent", QUEUE)
def _sockets_send_what_they_have(edits: Edits) -> None:
    for each in calls(edits.function("_close_zmq"), "close"):
        edits.keyword(each, "linger", "2000")


@edits_of("left-unsent", QUEUE)
def _a_forked_child_sends_what_it_has_before_it_leaves(edits: Edits) -> None:
    edits.top(
        """
        import multiprocessing.util
        import weakref

        def _sends_what_it_has(context):
            if context() is not None:
                context().destroy(linger=2000)
        """
    )
    made = statement(
        edits.function("MessageQueue.__init__"),
        lambda each: isinstance(each, ast.Assign) and ast.unparse(each) == "context = Context()",
        "making of the context",
    )
    edits.after(
        made,
        """
        given = (weakref.ref(context),)
        multiprocessing.util.Finalize(None, _sends_what_it_has, given, exitpriority=0)
        """,
    )


@edits_of("unreserved-memory", QUEUE)
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


@edits_of("sockets-by-umask", QUEUE)
def _paths_are_their_owners(edits: Edits) -> None:
    edits.top("import os")
    for place in ("MessageQueue.__init__", "SpinCondition.__init__"):
        making = edits.function(place)
        for each in calls(making, "bind"):
            line = around(making, each)
            edits.before(line, "mask = os.umask(0o077)")
            edits.after(line, "os.umask(mask)")


@edits_of("unclosed-sockets", QUEUE)
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


_SPARE = 16
"""Number of descriptors: more than a context, its threads and the sockets of one end take."""


@edits_of("aborted-context", QUEUE)
def _a_context_is_begun_with_descriptors_to_spare(edits: Edits) -> None:
    edits.top(
        f"""
        import os

        def _has_descriptors():
            held = []
            try:
                for _ in range({_SPARE}):
                    held.append(os.open(os.devnull, os.O_RDONLY))
            finally:
                for each in held:
                    os.close(each)
        """
    )
    for place in ("MessageQueue.__init__", "MessageQueue.create_from_handle"):
        making = edits.function(place)
        for each in calls(making, "Context"):
            edits.before(around(making, each), "_has_descriptors()")
