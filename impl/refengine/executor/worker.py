"""A worker process from its first line to its exit status (SPEC 5)."""

import contextlib
import importlib
import logging
import mmap
import os
import pickle
import sys
from typing import Any

from ..queue import MessageQueue
from . import hangup, titles
from .birth import Birth
from .leaving import Leave, Leaving
from .link import MOST_BYTES, Link
from .page import Page
from .place import Place
from .replying import ByThread, Replies, Straight, told
from .serving import Server
from .settings import WorkerSpec
from .shared_lock import SharedLock
from .tether import LEAVE, Tether

_log = logging.getLogger(__name__)
_HANDSHAKE = 120.0
READY, FAILED, LEAVING = "ready", "failed", "leaving"


def be_worker(link: Link) -> int:
    """Do as the parent at the other end says; the exit status."""
    leaving = Leaving()
    try:
        _, (birth_fd, death, page_fd, store_fd, *bells) = link.hear()
    except (EOFError, ValueError):
        return 1
    _bind_to_parent(death)
    tether = Tether(link, death, leaving)
    tether.start()
    try:
        leaving.obey_signals()
        life = _Life(_read(birth_fd), page_fd, store_fd, link, tether, leaving, tuple(bells))
        life.live()
    except Leave:
        pass
    return leaving.status


def _bind_to_parent(death: int) -> None:
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    if nothing:  # else it has that place itself
        os.dup2(nothing, 0)
        os.close(nothing)
    hangup.last_a_second()
    hangup.send_at_hangup(death, -os.getpid())


def _read(fd: int) -> Birth:
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as written:
        os.close(fd)
        return pickle.loads(written)


class _Life:
    """One worker's belongings, given back in `live` whatever ends it."""

    def __init__(
        self,
        birth: Birth,
        page_fd: int,
        store_fd: int,
        link: Link,
        tether: Tether,
        leaving: Leaving,
        bells: tuple[int, ...] = (),
    ) -> None:
        self._birth, self._link, self._tether, self._leaving = birth, link, tether, leaving
        self._page = Page(page_fd, birth.world_size)
        self._lock = SharedLock(page_fd)
        self._store = f"/proc/self/fd/{store_fd}"
        self._bells = bells
        self._worker: Any = None

    def live(self) -> None:
        birth = self._birth
        with contextlib.ExitStack() as belongings:
            try:
                worker = self._begin()
                replies = belongings.enter_context(self._reply_queue())
                outlet = self._outlet(replies)
            except BaseException as error:
                self._report(error)
                return
            try:  # from READY on the pool may be complete, to the parent: we leave in good order
                if not self._link.say((READY, replies.export_handle())):
                    return
                try:
                    requests = belongings.enter_context(self._meet(replies))
                except BaseException as error:
                    if not self._leaving.asked:
                        self._report(error)
                    return
                Server(worker, birth.rank, requests, outlet, self._page, self._leaving).serve()
            finally:
                self._leave(outlet)

    def _begin(self) -> Any:
        """The worker object, its model loaded."""
        birth = self._birth
        titles.set_title(birth.rank)
        if birth.log_prefix:
            titles.prefix_output(birth.rank)
        spec = birth.settle_in()
        if "torch" in sys.modules:
            threads = os.environ.get("OMP_NUM_THREADS", "1")
            sys.modules["torch"].set_num_threads(int(threads) if threads.isdecimal() else 1)
        place = Place(
            birth.rank,
            birth.world_size,
            birth.tensor_parallel,
            birth.device,
            self._lock,
            self._store,
            self._bells,
        )
        self._worker = worker = _class_of(spec)(place, **spec.options)
        worker.init_device()
        worker.load_model()
        return worker

    def _reply_queue(self) -> MessageQueue:
        birth = self._birth
        queue = MessageQueue(1, max_chunk_bytes=birth.max_chunk_bytes, max_chunks=birth.max_chunks)
        self._leaving.on_leave(queue.shutdown)
        return queue

    def _meet(self, replies: MessageQueue) -> MessageQueue:
        """The queue of requests, once it and the one of replies are complete."""
        handle = self._tether.hear()
        if handle == LEAVE:
            raise Leave(0)
        requests = MessageQueue.create_from_handle(handle, self._birth.rank)
        try:
            self._leaving.on_leave(requests.shutdown)
            requests.wait_until_ready(_HANDSHAKE)
            replies.wait_until_ready(_HANDSHAKE)
        except BaseException:
            requests.close()
            raise
        return requests

    def _outlet(self, replies: MessageQueue) -> Replies:
        straight = Straight(replies)
        return ByThread(straight) if self._birth.output_thread else straight

    def _report(self, error: BaseException) -> None:
        if self._leaving.asked:
            text = f"it was told to leave ({self._leaving.why})"
        else:
            text = told(error)[1]
            self._leaving.status = 1
        self._link.say((FAILED, text[-MOST_BYTES // 4 :]))

    def _leave(self, outlet: Replies) -> None:
        self._link.say((LEAVING, self._leaving.why or "of an error of its own"))
        outlet.close()
        shutdown = getattr(self._worker, "shutdown", None)
        if shutdown is not None:
            try:
                shutdown()
            except Exception:
                _log.exception("the worker's shutdown() failed")


def _class_of(spec: WorkerSpec) -> Any:
    if not isinstance(spec.worker, str):
        return spec.worker
    module, _, name = spec.worker.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
