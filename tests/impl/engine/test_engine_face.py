"""What an engine's user sees, with replicas whose processes do as the test says."""

from __future__ import annotations

import functools
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from refengine.engine import Engine, EngineClosed, EngineFailed, protocol
from refengine.engine import engine as module
from refengine.engine.front_end.request_tracker import RequestTracker
from refengine.engine.front_end.streams import Completion
from refengine.engine.protocol import AddRequest, Cancel, Output, Outputs, Request
from refengine.engine.settings import EngineSettings
from refengine.engine.supervisor.supervisor import Supervisor
from refengine.errors import ForkedCopy

from ..roles import Role, until
from .hosted import Sockets
from .relayed import Coordinators, Cores


class Serving:
    """An engine and its one replica."""

    def __init__(self, cores: Cores, **given: Any) -> None:
        self.cores, self.sockets = cores, Sockets()
        self.engine = Engine(EngineSettings(start_timeout=9.0, **given))
        self.front = self.sockets.context.socket(zmq.DEALER)
        self.front.setsockopt(zmq.LINGER, 0)
        self.front.setsockopt(zmq.RCVTIMEO, 5000)
        self.front.bind(cores["core-0"].ready.front)

    def request(self) -> Request:
        """The next that comes to the replica."""
        message = protocol.decode_to_core(self.front.recv())
        assert isinstance(message, AddRequest)
        return message.request

    def give(self, attempt: Request, *tokens: int, finish: str = "length") -> None:
        self.front.send(protocol.encode(Outputs((Output(attempt.id, tokens, finish),))))

    def close(self) -> None:
        self.engine.close()
        self.sockets.close()


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Cores:
    made = Cores()
    supervisor = functools.partial(Supervisor, replica=made.new, coordinator=Coordinators().new)
    monkeypatch.setattr(module, "Supervisor", supervisor)
    return made


@pytest.fixture
def serve(cores: Cores) -> Iterator[Callable[..., Serving]]:
    made: list[Serving] = []

    def new(**given: Any) -> Serving:
        made.append(Serving(cores, **given))
        return made[-1]

    yield new
    for each in made:
        each.close()


def test_prompts_go_in_and_tokens_come_out(serve: Any) -> None:
    one = serve()
    stream = one.engine.submit((1, 2), 3)
    attempt = one.request()
    assert (attempt.prompt, attempt.max_tokens) == ((1, 2), 3)
    one.give(attempt, 5, 6, 7)
    assert stream.result(5.0) == Completion((5, 6, 7), "length")
    counts = one.engine.counts()
    assert (counts.requests["length"], counts.tokens, counts.open) == (1, 3, 0)
    assert (counts.restarts, counts.wave) == ({"core-0": 0}, 0)


def test_requests_have_names_of_their_own_or_those_that_they_are_given(serve: Any) -> None:
    engine = serve().engine
    names = [engine.submit((1,)).request_id for _ in range(2)]
    assert names == ["request-1", "request-2"]
    assert engine.submit((1,), request_id="mine").request_id == "mine"
    with pytest.raises(ValueError, match="'mine'"):
        engine.submit((1,), request_id="mine")


def test_without_a_number_sixteen_tokens_are_asked_for(serve: Any) -> None:
    one = serve()
    one.engine.submit((1,))
    assert one.request().max_tokens == 16


def test_what_can_never_be_served_is_refused_at_once(serve: Any) -> None:
    with pytest.raises(ValueError, match="never fit"):
        serve(blocks=1, block_size=4).engine.submit((1,) * 9)


def test_cancelling_reaches_the_replica(serve: Any) -> None:
    one = serve()
    stream = one.engine.submit((1,))
    attempt = one.request()
    stream.cancel()
    assert stream.result(5.0).finish == "cancelled"
    assert protocol.decode_to_core(one.front.recv()) == Cancel(attempt.id)


def test_how_it_is_and_of_what_it_is_made_can_be_asked(serve: Any) -> None:
    one = serve()
    health = one.engine.health()
    assert (health.alive, health.ready, health.progressing) == (True, True, True)
    assert one.engine.parts() == {"core-0": one.cores["core-0"].pid}
    assert one.engine.settings.start_timeout == 9.0


def test_without_restarts_it_has_failed_once_its_last_replica_is_gone(serve: Any) -> None:
    one = serve(restart=False)
    assert one.engine.failure() is None
    os.kill(one.cores["core-0"].pid, signal.SIGKILL)
    until(lambda: one.engine.failure() is not None, 5.0)
    assert str(one.engine.failure()).startswith("core-0 cannot serve: it was killed by SIGKILL")


def test_with_restarts_it_has_not_failed_when_one_is_gone(serve: Any) -> None:
    one = serve()
    os.kill(one.cores["core-0"].pid, signal.SIGKILL)
    until(lambda: len(one.cores.lives("core-0")) == 2, 5.0)
    assert one.engine.failure() is None


def test_once_its_thread_has_ended_by_itself_it_has_failed(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = serve()

    def tick(_book: object, _now: float) -> list[object]:
        raise RuntimeError("a mistake of the front end's own")

    monkeypatch.setattr(RequestTracker, "tick", tick)
    until(lambda: one.engine.failure() is not None, 5.0)
    assert str(one.engine.failure()) == "the front end cannot serve: its thread has ended"


def test_closed_it_takes_and_has_nothing_any_more(serve: Any) -> None:
    one = serve()
    with one.engine as engine:
        stream = engine.submit((1,))
    with pytest.raises(EngineClosed):
        stream.result(0)
    with pytest.raises(EngineClosed, match="submit"):
        engine.submit((1,))
    assert not engine.health().alive
    assert engine.failure() is None
    assert engine.parts() == {}
    engine.close()


def test_a_forked_copy_is_no_engine_and_ends_none(serve: Any) -> None:
    one = serve()

    def child(say: Any) -> None:
        one.engine.close()
        try:
            one.engine.submit((1,))
        except ForkedCopy as error:
            say(str(error))

    with Role(child) as role:
        (told,) = role.finish()
    assert "engine" in told
    assert one.engine.health().alive
    assert one.engine.parts() == {"core-0": one.cores["core-0"].pid}


def test_forgotten_it_ends(cores: Cores) -> None:
    engine = Engine(EngineSettings(start_timeout=9.0))
    stream = engine.submit((1,))
    pid = cores["core-0"].pid
    del engine
    gc.collect()
    with pytest.raises(EngineClosed):
        stream.result(5.0)
    until(lambda: not Path(f"/proc/{pid}").exists(), 5.0)


def test_one_that_cannot_start_leaves_nothing(cores: Cores) -> None:
    before = set(threading.enumerate())
    cores.failures["core-1"] = OSError("no process")
    with pytest.raises(EngineFailed, match="core-1"):
        Engine(EngineSettings(data_parallel=2, start_timeout=9.0))
    assert not Path(f"/proc/{cores['core-0'].pid}").exists()
    assert set(threading.enumerate()) == before
