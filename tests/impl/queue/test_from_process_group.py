"""Queues made by a process group: who is local is found out, everybody gets an end (SPEC 3)."""

import datetime
import socket
import threading
from typing import Any

import pytest
import torch.distributed as dist  # here, once, and not in every role that is forked

from refengine.errors import MemoryShort
from refengine.queue import MessageQueue
from refengine.queue.from_process_group import Node, Topology, plan_topology, reader_rank_of

from ..roles import Role

HERE = Node("boot", (1, 1), (2, 2), 3)
OTHER_SHM = Node("boot", (9, 1), (2, 2), 3)
OTHER_HOST = Node("else", (1, 1), (2, 2), 3)


@pytest.mark.parametrize(
    ("nodes", "writer", "expected"),
    [
        ([HERE, HERE, HERE], 0, Topology([0, 1], 2, False)),
        ([HERE, OTHER_SHM, HERE], 0, Topology([1], 2, False)),
        ([HERE, OTHER_SHM, HERE], 2, Topology([0], 2, False)),
        ([HERE, OTHER_HOST], 0, Topology([], 1, True)),
    ],
)
def test_local_is_who_shares_kernel_memory_and_folder(
    nodes: list[Node], writer: int, expected: Topology
):
    assert plan_topology(nodes, writer) == expected


def test_readers_are_numbered_in_the_order_of_their_ranks_without_the_writer():
    assert [reader_rank_of(rank, 1) for rank in (0, 2, 3)] == [0, 1, 2]


def test_two_processes_of_one_machine_are_on_one_node():
    with Role(lambda say: say(Node.here())) as role:
        assert role.hear() == Node.here()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def member(say: Any, work: Any, port: int, rank: int, size: int) -> None:
    """Join a torch group over gloo, then work in it."""
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=20),
    )
    work(say, dist.group.WORLD, rank)
    say("done")


def play(work: Any, size: int = 3) -> list[list[Any]]:
    port = free_port()
    roles = [Role(member, work, port, rank, size) for rank in range(size)]
    try:
        said = [role.finish(40) for role in roles]
    finally:
        for role in roles:
            role.kill()
    for rank, words in enumerate(said):
        assert words[-1] == "done", (rank, words)
    return [words[:-1] for words in said]


@pytest.mark.parametrize("writer", [0, 2])
def test_a_torch_group_makes_one_queue_of_which_one_rank_writes(writer: int):
    def work(say: Any, group: Any, rank: int) -> None:
        queue = MessageQueue.create_from_process_group(group, 4096, 4, writer, timeout=20)
        with queue:
            say(queue.broadcast_object("hello" if rank == writer else None))
            say(queue.broadcast_object(b"x" * 9000 if rank == writer else None))

    assert play(work) == [["hello", b"x" * 9000]] * 3


def test_members_elsewhere_become_remote_readers():
    def work(say: Any, group: Any, rank: int) -> None:
        if rank == 1:
            here = Node.here()
            Node.here = lambda: Node(here.kernel, (0, 0), here.folder, here.pids)
        queue = MessageQueue.create_from_process_group(group, 4096, 4, timeout=20)
        with queue:
            say(queue.broadcast_object("hello" if rank == 0 else None))
            say((queue.export_handle().local_reader_ranks, bool(queue.export_handle().remote)))

    assert play(work) == [["hello", ((1,), True)]] * 3


def test_another_machine_needs_an_address_and_every_rank_is_told():
    def work(say: Any, group: Any, rank: int) -> None:
        if rank == 1:
            Node.here = lambda: OTHER_HOST
        with pytest.raises(ValueError, match="connect_ip"):
            MessageQueue.create_from_process_group(group, 4096, 4)
        with pytest.raises(ValueError, match="connect_ip"):
            MessageQueue.create_from_process_group_single_reader(group, 4096, 4)

    play(work)


def test_without_blocking_the_handshake_is_the_callers():
    def work(say: Any, group: Any, rank: int) -> None:
        queue = MessageQueue.create_from_process_group(group, 4096, 4, blocking=False)
        with queue:
            queue.wait_until_ready(20)
            say(queue.broadcast_object(7 if rank == 0 else None))

    assert play(work) == [[7]] * 3


def test_with_an_external_writer_every_rank_reads():
    port = free_port()
    writer = MessageQueue(3, max_chunk_bytes=4096, max_chunks=4)
    handle = writer.export_handle()

    def work(say: Any, group: Any, rank: int) -> None:
        given = handle if rank == 1 else None
        with MessageQueue.create_from_process_group(
            group, writer_rank=1, external_writer_handle=given, timeout=20
        ) as queue:
            say(queue.dequeue(20))

    roles = [Role(member, work, port, rank, 3) for rank in range(3)]
    try:
        writer.wait_until_ready(30)
        writer.enqueue("from outside", 10)
        assert [role.finish(30) for role in roles] == [["from outside", "done"]] * 3
    finally:
        for role in roles:
            role.kill()
        writer.close()


@pytest.mark.parametrize("blocking", [False, True])
def test_every_rank_can_write_to_a_single_reader(blocking: bool):
    def work(say: Any, group: Any, rank: int) -> None:
        own, handles = MessageQueue.create_from_process_group_single_reader(
            group, 4096, 4, reader_rank=1, blocking=blocking, timeout=20
        )
        assert len(handles) == (3 if rank == 1 else 0)
        if rank != 1:
            with own:
                own.wait_until_ready(20)
                own.enqueue(rank, 10)
            return
        readers = [MessageQueue.create_from_handle(handle, 0) for handle in handles]
        writing = threading.Thread(target=lambda: (own.wait_until_ready(20), own.enqueue(1, 10)))
        writing.start()
        for reader in readers:
            reader.wait_until_ready(20)
            say(reader.dequeue(20))
            reader.close()
        writing.join()
        own.close()

    assert play(work)[1] == [0, 1, 2]


@pytest.mark.parametrize("short", [0, 1, 2])
def test_a_rank_without_room_for_its_queue_is_told_to_every_rank(short: int):
    def work(say: Any, group: Any, rank: int) -> None:
        chunk = 1 << 46 if rank == short else 4096
        with pytest.raises(MemoryShort):
            MessageQueue.create_from_process_group_single_reader(group, chunk, 4, reader_rank=1)

    play(work)


def test_a_group_of_one_cannot_make_a_queue():
    def work(say: Any, group: Any, rank: int) -> None:
        with pytest.raises(ValueError, match="at least one reader"):
            MessageQueue.create_from_process_group(group)

    play(work, size=1)
