"""Writers and readers for tests, and ways to hold them up."""

import threading
from pathlib import Path
from typing import Any

from refengine.errors import (
    MessagesLost,
)
from refengine.queue import Handle, MessageQueue

from ..roles import Role

CHUNK = 4096
BIG = b"b" * 50_000


def attach(handle: Handle, rank: int = 0, **seams: Any) -> MessageQueue:
    queue = MessageQueue.create_from_handle(handle, rank, **seams)
    queue.wait_until_ready(10)
    return queue


def echo(say: Any, handle: Handle, rank: int = 0, **seams: Any) -> None:
    """Say everything received, then the error that ends it."""
    with attach(handle, rank, **seams) as queue:
        while True:
            try:
                say(queue.dequeue(10))
            except MessagesLost as error:
                say(error)
            except Exception as error:
                say(error)
                return


def pair(**seams: Any) -> tuple[MessageQueue, MessageQueue]:
    """Writer and reader in this process."""
    seams = {"max_chunk_bytes": CHUNK, "max_chunks": 4} | seams
    writer = MessageQueue(1, **seams)
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0)
    thread = threading.Thread(target=reader.wait_until_ready, args=(10,))
    thread.start()
    writer.wait_until_ready(10)
    thread.join()
    return writer, reader


def writer_for(n: int, **seams: Any) -> MessageQueue:
    return MessageQueue(n, **({"max_chunk_bytes": CHUNK, "max_chunks": 4} | seams))


class HeldBack:
    """Keeps payloads from a reader, as a slow connection does."""

    def __init__(self, reader: MessageQueue) -> None:
        self.payloads = reader._reader._payloads
        self.find = self.payloads.find
        self.payloads.find = lambda _: None
        wait = self.payloads.wait
        self.payloads.wait = lambda fd, s: wait(fd, 0.01 if s is None else min(s, 0.01))

    def release(self) -> None:
        self.payloads.find = self.find


def role_reader(writer: Role) -> MessageQueue:
    return attach(writer.hear())


def asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "SZ"
