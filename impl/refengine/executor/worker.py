"""A worker process: its start, its loop of calls, its replies, its exit status (SPEC 5, W6).

The loop takes a request, runs the method and replies, until the worker is to leave. Results go to
the parent from the main thread, or from a thread of their own.
"""

import contextlib
import importlib
import logging
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Protocol

from ..errors import Cancelled, PeerDied, PeerSilent, QueueClosed
from ..queue import MessageQueue
from .messages import Request, partial_decode
from .parent_monitor import LEAVE, ParentMonitor, ShutdownRequest, ShutdownRequested
from .process import (
    MAX_MESSAGE_BYTES,
    Link,
    ProgressBoard,
    die_one_second_after_hangup,
    prefix_output,
    send_signal_at_hangup,
    set_title,
)
from .settings import SharedLock, WorkerContext, WorkerSpec
from .worker_init import WorkerInit, read_init

_log = logging.getLogger(__name__)
_FLUSH_WITHIN = 2.0
PARENT_GONE = Cancelled, QueueClosed, PeerDied, PeerSilent
"""Errors of a queue whose other side is gone: the worker leaves."""


class Replies(Protocol):
    """The way of results to the parent."""

    def result(self, number: int, value: Any) -> None:
        """Send the value of the call of this number, or what its `get_output` returns."""
        ...

    def failure(self, number: int, error: BaseException) -> None:
        """Send the error that the call of this number raised."""
        ...

    def close(self) -> None:
        """Send what is still queued."""
        ...


class DirectReplies:
    """Sends from the calling thread. A result that raises or cannot be sent is a failure."""

    def __init__(self, replies: MessageQueue) -> None:
        self._enqueue = replies.enqueue

    def result(self, number: int, value: Any) -> None:
        """See `Replies`; a result that cannot be sent is a failure."""
        try:
            if hasattr(value, "get_output"):
                value = value.get_output()
            self._enqueue((number, True, value))
        except (*PARENT_GONE, ShutdownRequested):
            raise
        except BaseException as error:
            self.failure(number, error)

    def failure(self, number: int, error: BaseException) -> None:
        """See `Replies`."""
        self._enqueue((number, False, format_error(error)))

    def close(self) -> None:
        """Do nothing: nothing is queued."""


class ThreadedReplies:
    """Sends from a thread of its own, while the main thread goes on with the next call."""

    def __init__(self, direct: DirectReplies) -> None:
        self._direct = direct
        self._queued: queue.SimpleQueue[tuple[Callable[[int, Any], None], int, Any] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._send, name="output", daemon=True)
        self._thread.start()

    def result(self, number: int, value: Any) -> None:
        """See `Replies`."""
        self._queued.put((self._direct.result, number, value))

    def failure(self, number: int, error: BaseException) -> None:
        """See `Replies`."""
        self._queued.put((self._direct.failure, number, error))

    def close(self) -> None:
        """See `Replies`; within two seconds."""
        self._queued.put(None)
        self._thread.join(_FLUSH_WITHIN)

    def _send(self) -> None:
        while (item := self._queued.get()) is not None:
            send, number, value = item
            try:
                send(number, value)
            except PARENT_GONE:
                return
            except BaseException:
                _log.exception("a reply could not be sent")
            del item, value


def format_error(error: BaseException) -> tuple[str, str]:
    """Return an error in words, and its traceback."""
    text = "".join(traceback.format_exception(error))
    try:
        reason = f"{type(error).__name__}: {error}"
    except ShutdownRequested:
        raise
    except BaseException:
        reason = type(error).__name__
    return reason, text


class WorkerLoop:
    """Runs the calls of one worker object. An error of a method does not end the loop."""

    def __init__(
        self,
        worker: Any,
        rank: int,
        requests: MessageQueue,
        replies: Replies,
        progress: ProgressBoard,
        shutdown_request: ShutdownRequest,
    ) -> None:
        self._worker, self._rank = worker, rank
        self._requests, self._replies = requests, replies
        self._progress, self._shutdown_request = progress, shutdown_request

    def serve(self) -> None:
        """Serve until the worker is to leave; return then, or raise `ShutdownRequested`."""
        dequeue, shutdown_request = self._requests.dequeue, self._shutdown_request
        while not shutdown_request.requested:
            try:
                request = dequeue(indefinite=True)
            except PARENT_GONE:
                shutdown_request.request("the parent closed the pool")
                return
            except BaseException as error:
                self._reject_request(error)
                continue
            self._run(request)
            del request

    def _run(self, request: Request) -> None:
        number, name, args, kwargs, only = request
        progress, rank = self._progress, self._rank
        progress.begin(rank)
        try:
            value = self._method(name)(*args, **kwargs)
        except BaseException as error:
            self._reply_failure(number, only, error)
        else:
            if only is None or only == rank:
                self._reply(number, value)
        progress.end(rank)

    def _reply(self, number: int, value: Any) -> None:
        try:
            self._replies.result(number, value)
        except PARENT_GONE:
            self._shutdown_request.request("nobody reads replies any more")

    def _reply_failure(self, number: int, only: int | None, error: BaseException) -> None:
        if isinstance(error, ShutdownRequested):
            raise error
        if only is not None and only != self._rank:
            _log.error("call %d failed at a worker that does not reply", number, exc_info=error)
            return
        try:
            self._replies.failure(number, error)
        except PARENT_GONE:
            self._shutdown_request.request("nobody reads replies any more")

    def _reject_request(self, error: BaseException) -> None:
        """Reply to a request that cannot be decoded; raise an exception that came from outside."""
        main = getattr(error, "undecoded", None)
        found = None if main is None else partial_decode(main)
        if found is None or len(found) != 5:
            raise error
        only = found[4] if isinstance(found[4], int) else None
        self._reply_failure(found[0], only, error.__cause__ or error)

    def _method(self, name: str | bytes) -> Callable[..., Any]:
        """Return a method by name, or a function with the worker as its first argument."""
        if isinstance(name, bytes):
            function = importlib.import_module("cloudpickle").loads(name)
            return lambda *args, **kwargs: function(self._worker, *args, **kwargs)
        default = _default_health_check if name == "check_health" else None
        method = getattr(self._worker, name, default)
        if method is None:
            raise AttributeError(f"{type(self._worker).__name__} has no method {name!r}")
        return method


def _default_health_check() -> None:
    """Health check of a worker without its own: that it answers is enough."""


_HANDSHAKE_WITHIN = 120.0
READY, FAILED, LEAVING = "ready", "failed", "leaving"


def worker_main(link: Link) -> int:
    """Run a worker for the parent at the other end of the link; return the exit status."""
    shutdown_request = ShutdownRequest()
    try:
        _, (init_fd, death_pipe, progress_fd, store_fd, *wakeups) = link.receive()
    except (EOFError, ValueError):
        return 1
    _bind_to_parent(death_pipe)
    parent_monitor = ParentMonitor(link, death_pipe, shutdown_request)
    parent_monitor.start()
    try:
        shutdown_request.handle_signals()
        init = read_init(init_fd)
        process = _WorkerProcess(
            init, progress_fd, store_fd, link, parent_monitor, shutdown_request, tuple(wakeups)
        )
        process.run()
    except ShutdownRequested:
        pass
    return shutdown_request.status


def _bind_to_parent(death_pipe: int) -> None:
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    if nothing:  # else it has that place itself
        os.dup2(nothing, 0)
        os.close(nothing)
    die_one_second_after_hangup()
    send_signal_at_hangup(death_pipe, -os.getpid())


class _WorkerProcess:
    """The resources of one worker process, which `run` releases whatever ends it."""

    def __init__(
        self,
        init: WorkerInit,
        progress_fd: int,
        store_fd: int,
        link: Link,
        parent_monitor: ParentMonitor,
        shutdown_request: ShutdownRequest,
        wakeups: tuple[int, ...] = (),
    ) -> None:
        self._init, self._link = init, link
        self._parent_monitor, self._shutdown_request = parent_monitor, shutdown_request
        self._progress = ProgressBoard(progress_fd, init.world_size)
        self._lock = SharedLock(progress_fd)
        self._store = f"/proc/self/fd/{store_fd}"
        self._wakeups = wakeups
        self._worker: Any = None

    def run(self) -> None:
        init = self._init
        with contextlib.ExitStack() as stack:
            try:
                worker = self._load()
                reply_queue = stack.enter_context(self._open_reply_queue())
                replies = self._make_replies(reply_queue)
            except BaseException as error:
                self._report_start_error(error)
                return
            try:  # from READY on the parent may take the pool for complete: leave in good order
                if not self._link.send((READY, reply_queue.export_handle())):
                    return
                try:
                    requests = stack.enter_context(self._handshake(reply_queue))
                except BaseException as error:
                    if not self._shutdown_request.requested:
                        self._report_start_error(error)
                    return
                WorkerLoop(
                    worker, init.rank, requests, replies, self._progress, self._shutdown_request
                ).serve()
            finally:
                self._shut_down(replies)

    def _load(self) -> Any:
        """Make the worker object and load its model."""
        init = self._init
        set_title(init.rank)
        if init.log_prefix:
            prefix_output(init.rank)
        spec = init.apply()
        if "torch" in sys.modules:
            threads = os.environ.get("OMP_NUM_THREADS", "1")
            sys.modules["torch"].set_num_threads(int(threads) if threads.isdecimal() else 1)
        context = WorkerContext(
            init.rank,
            init.world_size,
            init.tensor_parallel,
            init.device,
            self._lock,
            self._store,
            self._wakeups,
            init.node,
        )
        self._worker = worker = _worker_class(spec)(context, **spec.options)
        worker.init_device()
        worker.load_model()
        return worker

    def _open_reply_queue(self) -> MessageQueue:
        init, node = self._init, self._init.node
        sizes = init.max_chunk_bytes, init.max_chunks
        if node is None or node.head:
            queue = MessageQueue(1, max_chunk_bytes=sizes[0], max_chunks=sizes[1])
        else:
            address, timeout = node.address, node.peer_timeout
            queue = MessageQueue(1, 0, None, *sizes, connect_ip=address, peer_timeout=timeout)
        self._shutdown_request.on_request(queue.shutdown)
        return queue

    def _handshake(self, reply_queue: MessageQueue) -> MessageQueue:
        """Return the queue of requests, once the handshakes of both queues are done."""
        handle = self._parent_monitor.next_message()
        if handle == LEAVE:
            raise ShutdownRequested(0)
        requests = MessageQueue.create_from_handle(handle, self._init.rank)
        try:
            self._shutdown_request.on_request(requests.shutdown)
            requests.wait_until_ready(_HANDSHAKE_WITHIN)
            reply_queue.wait_until_ready(_HANDSHAKE_WITHIN)
        except BaseException:
            requests.close()
            raise
        return requests

    def _make_replies(self, reply_queue: MessageQueue) -> Replies:
        direct = DirectReplies(reply_queue)
        return ThreadedReplies(direct) if self._init.output_thread else direct

    def _report_start_error(self, error: BaseException) -> None:
        if self._shutdown_request.requested:
            text = f"it was told to leave ({self._shutdown_request.reason})"
        else:
            text = format_error(error)[1]
            self._shutdown_request.status = 1
        self._link.send((FAILED, text[-MAX_MESSAGE_BYTES // 4 :]))

    def _shut_down(self, replies: Replies) -> None:
        self._link.send((LEAVING, self._shutdown_request.reason or "an error of its own"))
        replies.close()
        shutdown = getattr(self._worker, "shutdown", None)
        if shutdown is not None:
            try:
                shutdown()
            except Exception:
                _log.exception("the worker's shutdown() failed")


def _worker_class(spec: WorkerSpec) -> Any:
    if not isinstance(spec.worker, str):
        return spec.worker
    module, _, name = spec.worker.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
