"""A play's own /dev/shm: its roles see it and nobody else, it ends with the play."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from killpoint.runner.environment.private_shm import PrivateShm
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import Attach, Fault, Make, Message, Ready, Receive, Scenario, Send, Wait
from killpoint.targets.protocol import QueueShape

_SHAPE = QueueShape(readers=1, chunk_bytes=1 << 18, chunks=4)
_LIFE = [Make(), Attach(), Ready(timeout=10.0), Send([Message()]), Receive(1, timeout=5.0), Wait()]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage("refengine") as made:
        yield made


@pytest.fixture
def shm(stage: Stage, tmp_path: Path) -> Iterator[PrivateShm]:
    own = PrivateShm(stage.zygote, tmp_path, 1 << 20)
    if own.refused:
        own.close()
        pytest.skip(own.refused)
    yield own
    own.close()


def _played(stage: Stage, *steps: object, size: int, restart: bool = False) -> Play:
    scenario = Scenario("Q15/x", ["Q15"], list(steps), shape=_SHAPE)
    scenario.shm_bytes, scenario.restart = size, restart
    play = stage.play(scenario)
    stage.forget(play)
    if "cannot be mounted" in play.stalled:
        pytest.skip(play.stalled)
    return play


def _outcomes(play: Play, op: str) -> list[str]:
    return [e.text("outcome") for e in play.history.of("end") if e.text("op") == op]


def test_it_has_the_size_asked_for_and_is_not_the_machines(shm: PrivateShm) -> None:
    room = os.statvfs(shm.path)
    assert room.f_blocks * room.f_frsize == 1 << 20
    assert not shm.path.samefile("/dev/shm")
    (shm.path / "kp-mine").write_bytes(b"x")
    assert not Path("/dev/shm/kp-mine").exists()


def test_it_ends_with_its_keeper(stage: Stage, shm: PrivateShm) -> None:
    shm.close()
    assert not shm.path.exists()
    assert shm.pid not in stage.zygote.descendants()


def test_a_queue_that_does_not_fit_is_refused_and_the_next_start_works(stage: Stage) -> None:
    play = _played(stage, *_LIFE, size=1 << 19, restart=True)
    assert _outcomes(play, "make") == ["error", "ok"]
    assert play.ledger.empty(), play.ledger.words()


def test_what_is_filled_is_the_plays_own(stage: Stage) -> None:
    before = os.statvfs("/dev/shm").f_bavail
    play = _played(stage, Fault("fill-shm", "writer"), *_LIFE, size=8 << 20)
    after = os.statvfs("/dev/shm")
    assert _outcomes(play, "make") == ["error"]
    assert (before - after.f_bavail) * after.f_frsize < 4 << 20


def test_a_segment_left_in_it_is_found_there(stage: Stage) -> None:
    steps = [*_LIFE[:2], Wait(), Fault("kill", "writer"), Fault("kill", "reader-0")]
    play = _played(stage, *steps, size=8 << 20)
    assert len(play.ledger.segments) == 1
