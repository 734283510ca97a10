"""The message queue: one writer, n readers; small messages by the ring, large ones beside it.

Writer: `q = MessageQueue(2)`, give `q.export_handle()` to two processes, `q.wait_until_ready(30)`,
`q.enqueue(obj, timeout=5)`. Reader: `q = MessageQueue.create_from_handle(handle, rank)`,
`q.wait_until_ready(30)`, `obj = q.dequeue(timeout=5)`. Readers on other hosts:
`MessageQueue(3, n_local_reader=2, connect_ip="192.0.2.7")`.
"""

from collections.abc import Sequence
from multiprocessing.util import Finalize
from typing import Any, Self, TypedDict, Unpack

from ..base.cancel import CancelToken, EventLike
from ..base.cleanup import ReleaseStack, close_collected
from ..base.clock import Clock
from ..base.security import SocketFactory
from ..base.serialization import SMALLEST_CHUNK, Limits
from ..errors import RankRefused, WrongRole
from ..ring.memory import Fence, MakeSharedWords, Memory, SharedSegment
from ..ring.waiting import WaitStrategy
from .chunking import ChunkingConfig
from .from_process_group import (
    GroupAdapter,
    Node,
    gather_to,
    members_of,
    plan_topology,
    reader_rank_of,
)
from .handshake import Handle
from .reader import LocalReader, Reader
from .remote_reader import RemoteReader
from .settings import ReaderPolicy, Settings
from .writer import Writer

__all__ = ["CancelToken", "Handle", "MessageQueue"]

_EXIT_SECONDS = 2.0
_NO_ADDRESS = "ranks on other machines take part: connect_ip is needed at rank(s) {}"


class Overrides(TypedDict, total=False):
    """Keyword arguments of both ends; see `Settings`."""

    waiting: WaitStrategy | None
    reader_policy: ReaderPolicy
    limits: Limits
    clock: Clock
    memory: Memory | type[SharedSegment]
    sockets: SocketFactory
    cells: MakeSharedWords
    fence: Fence | None
    peer_timeout: float
    chunking: ChunkingConfig


class MessageQueue:
    """One end. The constructor makes the writer's, `create_from_handle` a reader's.

    Readers whose ranks are not among the local ones are remote: they connect over TCP to
    `connect_ip`, the address of this host that they can reach (default: loopback, and nothing
    listens if there are none). A remote party from which nothing came for `peer_timeout` seconds
    counts as gone; a shorter cut loses nothing (SPEC Q18).

    What was enqueued before `close`, garbage collection or a normal exit is delivered, or the
    reader gets the number of lost ones as an error (SPEC Q16); each takes at most 2 s.
    """

    def __init__(
        self,
        n_reader: int,
        n_local_reader: int | None = None,
        local_reader_ranks: Sequence[int] | None = None,
        max_chunk_bytes: int = 24 << 20,
        max_chunks: int = 10,
        *,
        connect_ip: str | None = None,
        **seams: Unpack[Overrides],
    ) -> None:
        n_local = n_reader if n_local_reader is None else n_local_reader
        ranks = list(range(n_local)) if local_reader_ranks is None else list(local_reader_ranks)
        _check(n_reader, n_local, ranks, max_chunk_bytes, max_chunks)
        host, settings = connect_ip or "127.0.0.1", Settings(**seams)
        sizes, undo = (max_chunk_bytes, max_chunks), ReleaseStack()
        try:
            self._adopt(Writer(n_reader, ranks, *sizes, host, settings, undo))
        except BaseException:
            undo.close()
            raise

    @classmethod
    def create_from_handle(cls, handle: Handle, rank: int, **seams: Unpack[Overrides]) -> Self:
        """Return reader `rank`'s end, or raise AttachFailed, PeerDied or RankRefused."""
        queue, undo = cls.__new__(cls), ReleaseStack()
        try:
            end = _open_reader(handle, rank, Settings(**seams), undo)
            queue._adopt(end)
            return (end.say_hello(), queue)[1]  # no step comes after the hello (R9)
        except BaseException:
            undo.close()
            raise

    @classmethod
    def create_from_process_group(
        cls,
        group: Any,
        max_chunk_bytes: int = 24 << 20,
        max_chunks: int = 10,
        writer_rank: int = 0,
        external_writer_handle: Handle | None = None,
        blocking: bool = True,
        *,
        connect_ip: str | None = None,
        timeout: float | None = 300.0,
        **seams: Unpack[Overrides],
    ) -> Self:
        """Return one queue for a whole group: collective, `writer_rank` writes, all others read.

        Readers that share the writer's memory are local, the others remote; if there is one on
        another machine, the writer must say the `connect_ip` that it reaches. Readers are
        numbered in the order of their group ranks, without the writer's.

        With an `external_writer_handle` (at `writer_rank`) the writer is outside of the group:
        every rank, `writer_rank` too, reads that queue under its own group rank.

        `blocking`: meet the others at once, within `timeout`. If not, each calls
        `wait_until_ready` itself, in any order.

        `group` is a `torch.distributed.ProcessGroup` or has the methods of `GroupAdapter`.
        ValueError, at every rank, if the queue cannot be made so.
        """
        members = members_of(group)
        outside = members.broadcast_obj(external_writer_handle, writer_rank)
        if outside is not None:
            queue = cls.create_from_handle(outside, members.rank, **seams)
        else:
            nodes = members.all_gather_obj(Node.here())
            sizes = max_chunk_bytes, max_chunks
            queue = cls._create_together(members, nodes, sizes, writer_rank, connect_ip, seams)
        if blocking:
            queue.wait_until_ready(timeout)
        return queue

    @classmethod
    def create_from_process_group_single_reader(
        cls,
        group: Any,
        max_chunk_bytes: int = 24 << 20,
        max_chunks: int = 10,
        reader_rank: int = 0,
        blocking: bool = False,
        *,
        connect_ip: str | None = None,
        timeout: float | None = 300.0,
        **seams: Unpack[Overrides],
    ) -> tuple[Self, list[Handle]]:
        """Return a queue from every rank, `reader_rank` too, to `reader_rank`: collective.

        The result is this rank's own queue, to write to, and, at `reader_rank` only, every rank's
        handle in rank order: it attaches to each as reader 0, and meets its own queue's writer in
        another thread. `blocking`: the other ranks wait until it has attached; `reader_rank`
        itself returns at once, since it is the one to attach.

        If a rank cannot make its queue, every rank raises the error of the first such one.
        """
        members = members_of(group)
        nodes: list[Node] = members.all_gather_obj(Node.here())
        local = nodes[members.rank] == nodes[reader_rank]
        other_machine = nodes[members.rank].kernel != nodes[reader_rank].kernel
        missing = members.all_gather_obj(other_machine and connect_ip is None)
        if any(missing):
            raise ValueError(_NO_ADDRESS.format([r for r, m in enumerate(missing) if m]))
        queue, sizes = None, (max_chunk_bytes, max_chunks)
        try:
            queue = cls(1, int(local), None, *sizes, connect_ip=connect_ip, **seams)
            answer = queue.export_handle()
        except Exception as error:
            answer = error  # the others wait for this rank's answer
        try:
            handles = gather_to(members, answer, reader_rank)
        except BaseException:
            if queue is not None:
                queue.close()
            raise
        assert queue is not None
        if blocking and members.rank != reader_rank:
            queue.wait_until_ready(timeout)
        return queue, handles

    @classmethod
    def _create_together(
        cls,
        members: GroupAdapter,
        nodes: list[Node],
        sizes: tuple[int, int],
        writer: int,
        connect_ip: str | None,
        seams: Overrides,
    ) -> Self:
        queue, answer = None, None
        if members.rank == writer:
            plan = plan_topology(nodes, writer)
            try:
                if plan.elsewhere and connect_ip is None:
                    raise ValueError(_NO_ADDRESS.format([writer]))
                queue = cls(
                    plan.readers,
                    len(plan.local),
                    plan.local,
                    *sizes,
                    connect_ip=connect_ip,
                    **seams,
                )
                answer = queue.export_handle()
            except Exception as error:
                answer = error
        answer = members.broadcast_obj(answer, writer)
        if isinstance(answer, Exception):
            raise answer
        if queue is None:
            queue = cls.create_from_handle(answer, reader_rank_of(members.rank, writer), **seams)
        return queue

    def _adopt(self, end: Writer | Reader) -> None:
        self._end = end
        self._writer = end if isinstance(end, Writer) else None
        self._reader = end if isinstance(end, Reader) else None
        # A call in between costs a twentieth of what a small message does.
        if isinstance(end, Writer):
            self.enqueue = end.enqueue
        else:
            self.dequeue = end.dequeue
        # Runs at collection, at exit, and in multiprocessing children, which skip atexit.
        closing = end.close, _EXIT_SECONDS
        self._finalizer = Finalize(self, close_collected, closing, exitpriority=20)

    def export_handle(self) -> Handle:
        """Return the handle for `create_from_handle`; send it only where the key may go."""
        return self._end.handle

    def wait_until_ready(self, timeout: float | None = None) -> None:
        """Collective: returns when every party has arrived, or raises (SPEC Q10)."""
        self._end.wait_until_ready(timeout)

    def enqueue(self, obj: object, timeout: float | None = None) -> None:
        """Publish to every reader; blocks while the slot is unread by a live one."""
        if self._writer is None:
            raise WrongRole("enqueue", "reader")
        self._writer.enqueue(obj, timeout)

    def dequeue(
        self,
        timeout: float | None = None,
        *,
        cancel: EventLike | None = None,
        indefinite: bool = False,
    ) -> Any:
        """Return the next message, in order, once. `indefinite`: a long wait logs no warning."""
        if self._reader is None:
            raise WrongRole("dequeue", "writer")
        return self._reader.dequeue(timeout, cancel, indefinite)

    def broadcast_object(self, obj: object = None) -> Any:
        """Return the writer's `obj`, at every party."""
        if self._writer is None:
            return self.dequeue()
        self._writer.enqueue(obj, None)
        return obj

    def shutdown(self) -> None:
        """Wake every waiter in this object (any thread); they and later calls raise Cancelled."""
        self._end.stop()

    def close(self, timeout: float = _EXIT_SECONDS) -> None:
        """Hand over messages that are under way, say goodbye, release everything. Idempotent."""
        if self._end.close(timeout):
            self._finalizer.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _open_reader(handle: Handle, rank: int, settings: Settings, undo: ReleaseStack) -> Reader:
    if rank in handle.local_reader_ranks and handle.ring is not None:
        return LocalReader(handle, rank, handle.ring, settings, undo)
    if rank in handle.remote_reader_ranks and handle.remote:
        return RemoteReader(handle, rank, settings, undo)
    known = sorted(handle.local_reader_ranks + handle.remote_reader_ranks)
    raise RankRefused(rank, f"unknown; the ranks are {known}")


def _check(
    n_reader: int, n_local: int, ranks: list[int], max_chunk_bytes: int, max_chunks: int
) -> None:
    if n_reader < 1 or max_chunks < 1:
        raise ValueError("a queue needs at least one reader and one chunk")
    if max_chunk_bytes < SMALLEST_CHUNK:
        raise ValueError(f"max_chunk_bytes is {max_chunk_bytes}, at least {SMALLEST_CHUNK}")
    if len(set(ranks)) != n_local or not all(0 <= r < n_reader for r in ranks):
        raise ValueError(f"{n_local} different local ranks below {n_reader} needed, not {ranks}")
