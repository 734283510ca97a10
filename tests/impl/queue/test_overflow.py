"""The overflow path: one payload, one frame, by its id (Q2, X1)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from refengine.base.security import SocketFactory
from refengine.queue.overflow import PayloadReceiver, PayloadSender

from ..roles import until

Pair = tuple[PayloadSender, PayloadReceiver]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    address = f"ipc://{tmp_path}/o"
    sender, receiver = PayloadSender(address, SocketFactory()), PayloadReceiver(SocketFactory())
    receiver.connect(address, b"nonce")
    until(lambda: b"\1nonce" in sender.subscriptions())
    yield sender, receiver
    receiver.close()
    sender.close(0)


def test_a_payload_is_found_by_its_id_as_often_as_asked(pair: Pair):
    sender, receiver = pair
    payload_id, nbytes = sender.send([b"main", memoryview(b"other")])
    assert nbytes == 3 + 4 + 4 + 4 + 5
    found = until(lambda: receiver.find(payload_id))
    assert found == [b"main", b"other"] == receiver.find(payload_id)


def test_a_payload_nobody_awaits_is_dropped(pair: Pair):
    sender, receiver = pair
    sender.send([b"abandoned"])
    wanted, _ = sender.send([b"wanted"])
    assert until(lambda: receiver.find(wanted)) == [b"wanted"]


def test_what_was_sent_is_what_was_there_at_the_call(pair: Pair):
    sender, receiver = pair
    data = bytearray(b"x" * (1 << 21))
    payload_id, _ = sender.send([b"", memoryview(data)])
    data[:] = bytes(len(data))
    assert until(lambda: receiver.find(payload_id))[1] == b"x" * (1 << 21)


def test_with_the_writer_gone_what_arrived_is_still_found(pair: Pair):
    sender, receiver = pair
    ids = [sender.send([b"%d" % i * 50_000])[0] for i in range(20)]
    sender.close(10)
    while not receiver.is_empty():
        receiver.wait_gone(1)
        if receiver.disconnected:
            break
    assert [receiver.find(i) for i in ids] == [[b"%d" % i * 50_000] for i in range(20)]


def test_with_the_writer_gone_what_cannot_come_is_known_soon(pair: Pair):
    sender, receiver = pair
    sender.close(0)
    until(lambda: receiver.is_empty() or receiver.wait_gone(1))
    assert receiver.find(1) is None


def test_an_exception_that_leaves_the_socket_held_does_not_lock_the_next_call_out(pair: Pair):
    """SPEC R9: one that strikes between the end of a `with` and its exit."""
    sender, receiver = pair
    payload_id, _ = sender.send([b"main"])
    assert receiver._one_thread.acquire(blocking=False)
    assert until(lambda: receiver.find(payload_id)) == [b"main"]

    def use() -> bool:
        held = receiver._one_thread.acquire(blocking=False)
        if held:
            receiver._one_thread.release()
        return held

    with ThreadPoolExecutor(1) as pool:  # whoever else uses the socket is not locked out either
        assert pool.submit(use).result(5)
