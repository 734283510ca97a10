"""Engines of real processes: the same tokens in every topology, and nothing left behind."""

import gc
import os
import signal

import pytest

pytest.importorskip("torch")

from refengine.engine import Engine, EngineClosed, EngineFailed, RequestFailed
from refengine.engine.settings import EngineSettings
from refengine.errors import ForkedCopy

from ..roles import Role, leftovers
from .engines import PATIENCE, PROMPTS, engine, expected, nothing_is_left, until

TOPOLOGIES = [
    {},
    *(  # E2's cases have these always
        pytest.param(shape, marks=pytest.mark.full)
        for shape in ({"tensor_parallel": 2}, {"data_parallel": 2}, {"prefill": 1})
    ),
]


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda given: "-".join(given) or "one")
def test_every_topology_gives_the_tokens_of_the_model_alone_and_leaves_nothing(topology):
    with engine(**topology) as made:
        streams = [made.submit(prompt, 24) for prompt in PROMPTS * 2]
        for stream, prompt in zip(streams, PROMPTS * 2, strict=True):
            assert stream.result(PATIENCE).tokens == expected(prompt)
        health, counts, parts = made.health(), made.counts(), made.parts()
        assert (health.alive, health.ready, health.progressing) == (True, True, True)
        assert counts.open == 0
        assert counts.retries == 0
        assert sum(counts.requests.values()) == len(streams)
        if "data_parallel" in topology:
            until(lambda: made.counts().wave > 0, PATIENCE)
        if "prefill" in topology:
            until(lambda: made.counts().imported > 0, PATIENCE)
        until(lambda: all(made.counts().steps.values()), PATIENCE)
        assert ("core-0/worker-1" in parts) == ("tensor_parallel" in topology)
    nothing_is_left(parts.values())
    assert leftovers(os.getpid()) == []


def test_an_engine_refuses_what_it_cannot_do_and_a_closed_one_everything():
    made = engine()
    try:
        for prompt, tokens in (((), 4), ((1,), 0), ((999,), 4), ((1,) * 5000, 4)):
            with pytest.raises(ValueError, match="token"):
                made.submit(prompt, tokens)
        role = Role(lambda say: say(type(_error(made.submit, PROMPTS[0]))))
        assert role.finish() == [ForkedCopy]
        other = made.submit(PROMPTS[1], 4000)
        other.cancel()
        assert other.result(PATIENCE).finish == "cancelled"
        stream = made.submit(PROMPTS[0], 4000)
        assert stream.next(PATIENCE).finish is None
    finally:
        made.close()
        made.close()
    with pytest.raises(EngineClosed):
        stream.result(0)
    with pytest.raises(EngineClosed):
        made.submit(PROMPTS[0])


def _error(act, *args):
    try:
        act(*args)
    except Exception as error:
        return error


def test_a_part_that_does_not_start_is_named():
    with pytest.raises(EngineFailed, match="core-0 cannot serve") as failed:
        Engine(EngineSettings(device="nowhere", start_timeout=PATIENCE))
    assert failed.value.part == "core-0"


@pytest.mark.parametrize("stopped", [pytest.param(False, marks=pytest.mark.full), True])
def test_killed_with_its_user_nothing_is_left(stopped):
    def use(say):
        made = engine()
        stream = made.submit(PROMPTS[0], 4000)
        stream.next(PATIENCE)
        say(made.parts())
        stream.result(PATIENCE)

    with Role(use) as role:
        parts = role.hear(PATIENCE)
        if stopped:
            os.kill(parts["core-0/worker-0"], signal.SIGSTOP)
        role.kill()
    nothing_is_left([role.pid, *parts.values()])


def test_forgotten_it_ends_and_so_do_its_requests():
    made = engine()
    parts = made.parts()
    stream = made.submit(PROMPTS[0], 4000)
    del made
    gc.collect()
    with pytest.raises((EngineClosed, RequestFailed)):
        stream.result(PATIENCE)
    nothing_is_left(parts.values())
