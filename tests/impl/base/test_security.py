"""Keys that never show, doors that stay shut (S2, S3, S4)."""

import os
import pickle
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from refengine.base.security import Keys
from refengine.errors import DeadlinePassed
from refengine.queue import MessageQueue

from ..roles import leftovers


def test_a_key_is_in_no_repr():
    queue = MessageQueue(1, max_chunk_bytes=4096)
    handle = queue.export_handle()
    secret = handle.keys.secret
    for shown in (repr(handle), str(handle), repr(queue), repr(handle.keys)):
        assert secret.hex() not in shown
        assert repr(secret)[2:-1] not in shown
    assert pickle.loads(pickle.dumps(handle)) == handle
    queue.close()


def test_keys_differ_and_match_only_themselves():
    a, b = Keys.fresh(), Keys.fresh()
    assert a.match(a.secret)
    assert not a.match(b.secret)
    assert not a.match(b"")


@pytest.mark.parametrize("umask", [0, 0o077])
def test_paths_and_sockets_are_their_owners_alone(umask: int):
    old = os.umask(umask)
    try:
        queue = MessageQueue(1, max_chunk_bytes=4096)
    finally:
        os.umask(old)
    folder = Path(queue.export_handle().door).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    names = sorted(folder.iterdir())
    assert [p.name for p in names] == ["door", "overflow"]
    assert all(p.stat().st_mode & 0o077 == 0 for p in names)
    queue.close()
    assert not leftovers(os.getpid())


def test_a_wrong_key_is_turned_away_and_the_writer_waits_on():
    queue = MessageQueue(1, max_chunk_bytes=4096)
    forged = replace(queue.export_handle(), keys=Keys.fresh())
    stranger = MessageQueue.create_from_handle(forged, 0)
    with pytest.raises(DeadlinePassed):
        queue.wait_until_ready(0.1)
    with pytest.raises(Exception, match="wrong key"):
        stranger.wait_until_ready(10)
    stranger.close()
    queue.close()


def test_mute_and_babbling_strangers_cost_no_reader():
    import threading

    queue = MessageQueue(1, max_chunk_bytes=4096)
    door = queue.export_handle().door
    strangers = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(20)]
    for i, stranger in enumerate(strangers):
        stranger.connect(door)
        if i % 2:
            stranger.send(b"babble" * 1000)
    reader = MessageQueue.create_from_handle(queue.export_handle(), 0)
    thread = threading.Thread(target=reader.wait_until_ready, args=(10,))
    thread.start()
    queue.wait_until_ready(10)
    thread.join()
    queue.enqueue("hello", 5)
    assert reader.dequeue(5) == "hello"
    for stranger in strangers:
        stranger.close()
    reader.close()
    queue.close()
