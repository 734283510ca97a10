"""KV links over carriers that a test holds in its hands."""

import threading
from queue import SimpleQueue
from typing import Any

import pytest

from refengine.engine import kv_worker_links as module
from refengine.engine.kv_worker_links import TransferEnded, WorkerKvLinks
from refengine.engine.model.batching import Transfer
from refengine.pipe.errors import BlocksFailed, PipeClosed

ONE = Transfer("one", "link", (1, 2))


class Carrier:
    """What it is asked for waits until the test lets it go on."""

    def __init__(self) -> None:
        self.asked: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self.let: SimpleQueue[Any] = SimpleQueue()
        self.closed: list[float | None] = []

    def send_kv(self, request_id: str, blocks: Any, *, lease: float) -> None:
        self._wait("send", request_id, blocks, lease)

    def recv_kv(self, request_id: str, *, timeout: float | None) -> Any:
        return self._wait("recv", request_id, timeout)

    def _wait(self, *asked: Any) -> Any:
        self.asked.put(asked)
        found = self.let.get(timeout=10)
        if isinstance(found, BaseException):
            raise found
        return found

    def close(self, timeout: float | None = None) -> None:
        self.closed.append(timeout)
        self.let.put(PipeClosed("this rank"))


@pytest.fixture
def carrier():
    return Carrier()


@pytest.fixture
def links(carrier):
    made = WorkerKvLinks("cpu", 3.0)
    made.adopt("link", carrier)
    yield made
    made.close()


def test_a_fetch_waits_beside_and_its_blocks_are_told_of_once(links, carrier):
    links.fetch(ONE)
    assert carrier.asked.get(timeout=10) == ("recv", "one", 3.0)
    assert links.take(0) == []
    carrier.let.put(["a", "b"])
    assert links.take(10) == [TransferEnded(ONE, ["a", "b"])]
    assert links.take(0) == []


def test_a_send_is_told_of_too(links, carrier):
    links.send(ONE, ["a", "b"])
    assert carrier.asked.get(timeout=10) == ("send", "one", ["a", "b"], 3.0)
    carrier.let.put(None)
    assert links.take(10) == [TransferEnded(ONE)]


@pytest.mark.parametrize("error", [BlocksFailed("one", "lost"), MemoryError("none is left")])
def test_whatever_goes_wrong_is_told(links, carrier, error):
    links.fetch(ONE)
    carrier.let.put(error)
    (ended,) = links.take(10)
    assert ended == TransferEnded(ONE, None, f"{type(error).__name__}: {error}")


def test_without_a_link_it_fails_at_once(links):
    for begin in (links.fetch, lambda transfer: links.send(transfer, [])):
        begin(Transfer("one", "other", ()))
        (ended,) = links.take(0)
        assert ended.failure == "there is no KV link 'other'"


def test_all_that_have_ended_are_taken_together(links, carrier):
    for name in ("one", "two", "three"):
        links.fetch(Transfer(name, "other", ()))
    assert [ended.transfer.transfer_id for ended in links.take(5)] == ["one", "two", "three"]


def test_whoever_waits_for_a_link_that_is_cut_is_told(links, carrier):
    links.fetch(ONE)
    carrier.asked.get(timeout=10)
    links.unlink("link")
    links.unlink("link")
    assert carrier.closed == [0.2]
    (ended,) = links.take(10)
    assert "PipeClosed" in ended.failure
    links.fetch(ONE)
    assert links.take(0)[0].failure.startswith("there is no KV link")


def test_a_link_that_breaks_while_it_is_cut_is_no_matter(links, carrier, monkeypatch):
    def close(timeout: float | None = None) -> None:
        raise PipeClosed("rank 0")

    monkeypatch.setattr(carrier, "close", close)
    links.close()
    links.close()


def test_a_link_is_a_pipe_of_two(monkeypatch):
    made: list[Any] = []

    class Pipe:
        def __init__(self, *given: Any, **more: Any) -> None:
            made.append((given, more))

    class Blocks(Carrier):
        def __init__(self, pipe: Any) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(module, "Pipe", Pipe)
    monkeypatch.setattr(module, "BlockPipe", Blocks)
    links = WorkerKvLinks("cuda:1", 3.0)
    links.link("a", "127.0.0.1", 5000, 1, b"key")
    assert made[0] == (
        ("127.0.0.1", 5000, 1, 2),
        {"key": b"key", "device": "cuda:1", "timeout": 2.0},
    )
    links.link("a", "127.0.0.1", 5001, 1, b"key")
    assert made[1].closed == [0.2]
    assert made[3].closed == []
    links.close()
    assert made[3].closed == [0.2]


def test_its_threads_keep_no_process_alive(links, carrier):
    links.fetch(ONE)
    carrier.asked.get(timeout=10)
    (thread,) = [each for each in threading.enumerate() if each.name == "kv one"]
    assert thread.daemon
    carrier.let.put([])
    thread.join(10)
