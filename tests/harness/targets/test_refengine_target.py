"""The adapter of the reference: it calls, it translates, and says what cannot be asked."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, get_args

import pytest

import refengine.errors
from killpoint.runner.network.group_rendezvous import free_port
from killpoint.targets import protocol
from killpoint.targets.protocol import (
    Capability,
    GroupShape,
    Outcome,
    QueueShape,
    UnsupportedByTarget,
)
from killpoint.targets.refengine.adapter import RefengineTarget
from killpoint.targets.refengine.pool import OUTCOMES

SECRET = bytes(range(32))
_METHODS: dict[str, type] = {
    "cancel": protocol.Cancels,
    "wire": protocol.HasWire,
    "ring": protocol.HasRing,
    "slots": protocol.HasSlots,
    "points": protocol.HasPoints,
    "group": protocol.HasGroup,
}


@pytest.fixture
def target() -> RefengineTarget:
    return RefengineTarget()


def test_it_claims_every_capability_and_has_its_methods(target: RefengineTarget) -> None:
    others = {"native", "server"}  # it is Python throughout; as a server it is another target
    assert target.capabilities == {*get_args(Capability)} - others
    assert [word for word, kind in _METHODS.items() if not isinstance(target, kind)] == []


@pytest.mark.parametrize("kind", [protocol.Target, *_METHODS.values()], ids=lambda k: k.__name__)
def test_its_methods_take_what_the_protocol_says(kind: type, target: RefengineTarget) -> None:
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            asked = list(inspect.signature(method).parameters)[1:]
            assert list(inspect.signature(getattr(target, name)).parameters) == asked, name


# -- how a call ended -----------------------------------------------------------------------

_ERRORS: dict[Outcome, list[Exception]] = {
    "timeout": [
        refengine.errors.DeadlinePassed("a message", 1.0),
        refengine.errors.BarrierFailed([2], 1.0),
        TimeoutError("plain"),
    ],
    "peer-died": [
        refengine.errors.PeerDied("reader 0", 7, "a slot"),
        refengine.errors.RankDied(1, 7, "an object"),
        refengine.errors.PeerSilent("rank 1", 2.5, "an object"),
    ],
    "closed": [
        refengine.errors.QueueClosed("the writer"),
        refengine.errors.GroupClosed("rank 0"),
    ],
    "lost": [refengine.errors.MessagesLost(3)],
    "cancelled": [refengine.errors.Cancelled("a message", "shutdown()")],
    "refused": [
        refengine.errors.EncodingLimit("the buffer count", 9, 8),
        refengine.errors.RankRefused(9, "unknown"),
    ],
    "busy": [refengine.errors.Busy("dequeue")],
    "error": [
        refengine.errors.Undecodable(4),
        refengine.errors.NotReady("enqueue"),
        refengine.errors.NotAuthentic("an object"),
        ValueError("anything else"),
    ],
}


@pytest.mark.parametrize(
    ("word", "error"),
    [(word, error) for word, errors in _ERRORS.items() for error in errors],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_an_exception_is_one_word(word: Outcome, error: Exception, target: RefengineTarget) -> None:
    assert target.classify(error) == word


def test_every_word_for_an_exception_is_used(target: RefengineTarget) -> None:
    told = {word for _, word in OUTCOMES}
    assert set(_ERRORS) | told | {"ok"} == set(get_args(Outcome))


# -- readers over TCP -----------------------------------------------------------------------


@contextmanager
def queue(target: RefengineTarget, shape: QueueShape) -> Iterator[tuple[Any, Any]]:
    """A writer's end and its handle, as another process would have it."""
    end = target.make(shape)
    try:
        yield end, pickle.loads(pickle.dumps(target.handle(end)))
    finally:
        target.close(end)


def test_a_queue_of_local_readers_has_no_address(target: RefengineTarget) -> None:
    with queue(target, QueueShape(readers=2)) as (_, handle):
        assert target.addresses(handle) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_is_read_and_replaced_in_a_copy(host: str, target: RefengineTarget) -> None:
    with queue(target, QueueShape(readers=1, remote=1, host=host)) as (_, handle):
        (address,) = target.addresses(handle)
        assert address.startswith("[::1]:" if ":" in host else f"{host}:")
        moved = target.rerouted(handle, {address: "127.0.0.1:9"})
        assert target.addresses(moved) == ["127.0.0.1:9"]
        assert target.addresses(handle) == [address]
        assert target.addresses(target.rerouted(handle, {"127.0.0.1:8": "x"})) == [address]


def test_the_secrets_of_a_handle_are_named_and_do_not_show(target: RefengineTarget) -> None:
    with queue(target, QueueShape(readers=1, remote=1)) as (_, handle):
        secrets = target.secrets(handle)
        assert len(secrets) > 1
        assert all(len(secret) >= 32 for secret in secrets)
        shown = f"{handle!r} {handle}".encode()
        assert not any(secret in shown or secret.hex().encode() in shown for secret in secrets)


def test_a_remote_reader_has_a_queue_and_no_ring(target: RefengineTarget) -> None:
    with queue(target, QueueShape(readers=1, remote=1)) as (writer, handle), ExitStack() as undo:
        reader = target.attach(handle, 0)
        undo.callback(target.close, reader)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda end: target.ready(end, 10.0), (writer, reader)))
        target.send(writer, {"n": 1}, 5.0)
        assert target.receive(reader, 5.0) == {"n": 1}
        for ask in (
            lambda: target.ring_read(reader, 0.0),
            lambda: target.flags(reader, 0),
            lambda: target.position(reader),
            lambda: target.overflowed(reader, 0),
        ):
            with pytest.raises(UnsupportedByTarget, match="remote reader has no ring"):
                ask()


# -- groups ---------------------------------------------------------------------------------


@contextmanager
def group(target: RefengineTarget, count: int = 3, host: str = "127.0.0.1") -> Iterator[list[Any]]:
    """A whole group in this process."""
    shape, address = GroupShape(ranks=count, host=host, silence=5.0), (host, free_port(host))
    with ThreadPoolExecutor(count) as pool:
        ends = list(
            pool.map(lambda rank: target.join(shape, address, rank, SECRET, 20.0), range(count))
        )
        try:
            yield ends
        finally:
            list(pool.map(target.group_leave, ends))


def each(ends: list[Any], act: Callable[[int, Any], Any]) -> list[Any]:
    """Every rank at once."""
    with ThreadPoolExecutor(len(ends)) as pool:
        return list(pool.map(act, range(len(ends)), ends))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_ranks_send_broadcast_gather_and_meet(host: str, target: RefengineTarget) -> None:
    with group(target, host=host) as ends:
        target.group_send(ends[2], "a", 1)
        assert target.group_receive(ends[1], 2, 5.0) == "a"
        got = each(ends, lambda rank, end: target.group_broadcast(end, rank, 1, 5.0))
        assert got == [1, 1, 1]
        got = each(ends, lambda rank, end: target.group_gather(end, rank * 10, 5.0))
        assert got == [[0, 10, 20]] * 3
        each(ends, lambda _, end: target.group_barrier(end, None))


def test_a_groups_timeouts_are_the_callers(target: RefengineTarget) -> None:
    with group(target, 2) as ends:
        for late in (
            lambda: target.group_receive(ends[0], 1, 0.05),
            lambda: target.group_broadcast(ends[0], None, 1, 0.05),
            lambda: target.group_gather(ends[0], 1, 0.05),
            lambda: target.group_barrier(ends[0], 0.05),
        ):
            with pytest.raises(TimeoutError) as error:
                late()
            assert target.classify(error.value) == "timeout"


def test_a_join_without_the_others_runs_out(target: RefengineTarget) -> None:
    address = ("127.0.0.1", free_port("127.0.0.1"))
    for rank in (0, 1):
        with pytest.raises(TimeoutError):
            target.join(GroupShape(ranks=2), address, rank, SECRET, 0.1)


def test_who_has_another_secret_is_no_member(target: RefengineTarget) -> None:
    shape, address = GroupShape(ranks=2), ("127.0.0.1", free_port("127.0.0.1"))
    with ThreadPoolExecutor(2) as pool:
        joins = [
            pool.submit(target.join, shape, address, rank, secret, 0.6)
            for rank, secret in enumerate((SECRET, bytes(32)))
        ]
        assert [type(join.exception(10)).__name__ for join in joins] == ["DeadlinePassed"] * 2


def test_a_member_that_has_left_is_told_as_closed(target: RefengineTarget) -> None:
    with group(target, 2) as ends:
        target.group_leave(ends[1])
        with pytest.raises(refengine.errors.GroupClosed) as error:
            target.group_receive(ends[0], 1, 5.0)
        assert target.classify(error.value) == "closed"


def test_its_own_code_is_the_packages_and_no_other(target: RefengineTarget) -> None:
    assert target.is_own_code(refengine.errors.PeerDied.__init__.__code__)
    assert not target.is_own_code(free_port.__code__)
