"""Each kind of process is killed or stopped under load: every request ends as it should (E1-E4)."""

import os
import signal
import time

import pytest

pytest.importorskip("torch")

from refengine.engine import RequestFailed
from refengine.engine.core import start
from refengine.executor import Zygote
from refengine.executor.process import has_ended

from .engines import (
    PATIENCE,
    PROMPTS,
    Load,
    engine,
    expected,
    is_back,
    kill,
    nothing_is_left,
    until,
)

STEP_TIMEOUT = 3.0


@pytest.mark.full  # a soak of a minute does the same, always
def test_whatever_is_killed_under_load_comes_back_and_no_token_changes():
    parts = ["core-0", "coordinator", "prefill-0", "core-1/worker-0"]
    killed = []
    with engine(data_parallel=2, prefill=1, retries=9) as made, Load(made) as load:
        for part in parts:
            load.await_more(3)
            if part == "core-1/worker-0":  # the other one is needed meanwhile
                until(lambda: is_back(made, "core-0", killed[0]), PATIENCE)
            killed.append(kill(made, part))
        for part, old in zip(parts, killed, strict=True):
            until(lambda part=part, old=old: is_back(made, part, old), PATIENCE)
        load.await_more(3)
        imported = made.counts().imported
        until(lambda: load.wrong or made.counts().imported > imported, PATIENCE)
        restarts = made.counts().restarts
    assert restarts == dict.fromkeys(["core-0", "core-1", "prefill-0", "coordinator"], 1)
    nothing_is_left(killed)


@pytest.mark.parametrize(
    ("part", "replicas"),
    [
        ("core-0/worker-0", 1),
        pytest.param("core-0/worker-0", 2, marks=pytest.mark.full),
        pytest.param("core-1", 2, marks=pytest.mark.full),
    ],
)
def test_a_part_stopped_under_load_is_told_and_then_replaced(part, replicas):
    with engine(data_parallel=replicas, step_timeout=8.0) as made, Load(made) as load:
        load.await_more(3)
        old = kill(made, part, signal.SIGSTOP)
        stopped = time.monotonic()
        seen = until(lambda: not (health := made.health()).progressing and health, 7.0)
        assert seen.alive
        assert time.monotonic() - stopped > 1.5
        until(lambda: is_back(made, part, old), PATIENCE)
        load.await_more(3)
        until(lambda: made.health().progressing, PATIENCE)
    nothing_is_left([old])


@pytest.mark.parametrize(
    "number", [signal.SIGSTOP, pytest.param(signal.SIGKILL, marks=pytest.mark.full)]
)
def test_without_what_cores_are_forked_from_one_comes_back_all_the_same(number, monkeypatch):
    with engine() as made:
        zygote = Zygote.shared(start.CORE_PRELOAD)
        os.kill(zygote.pid, number)
        monkeypatch.setattr(start, "_FORKED_WITHIN", 0.5)
        old = kill(made, "core-0")
        until(lambda: has_ended(zygote._process), PATIENCE)
        monkeypatch.undo()
        until(lambda: is_back(made, "core-0", old), PATIENCE)
        assert made.submit(PROMPTS[0], 4).result(PATIENCE).tokens == expected(PROMPTS[0])[:4]
        nothing_is_left([old])


@pytest.mark.full
def test_a_stopped_coordinator_is_replaced():
    with engine(data_parallel=2) as made:
        old = kill(made, "coordinator", signal.SIGSTOP)
        streams = [made.submit(prompt, 24) for prompt in PROMPTS]
        for stream, prompt in zip(streams, PROMPTS, strict=True):
            assert stream.result(PATIENCE).tokens == expected(prompt)
        until(lambda: is_back(made, "coordinator", old), PATIENCE)
        nothing_is_left([old])


@pytest.mark.full
def test_without_restarts_the_others_go_on_until_none_is_left():
    with engine(data_parallel=2, restart=False) as made:
        assert made.submit(PROMPTS[0], 24).result(PATIENCE).tokens == expected(PROMPTS[0])
        kill(made, "core-1")
        until(lambda: made.health().replicas[1].state == "dead", PATIENCE)
        assert made.failure() is None
        for prompt in PROMPTS:
            assert made.submit(prompt, 24).result(PATIENCE).tokens == expected(prompt)
        kill(made, "core-0")
        until(lambda: made.health().replicas[0].state == "dead", PATIENCE)
        health = made.health()
        assert (health.alive, health.ready) == (True, False)
        assert str(made.failure()).startswith("core-0 cannot serve: it was killed by SIGKILL")
        with pytest.raises(RequestFailed, match=r"core-0 .*SIGKILL"):
            made.submit(PROMPTS[0], 24).result(PATIENCE)
