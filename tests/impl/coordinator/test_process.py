"""The coordinator's process: it reports where it listens, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from refengine.coordinator import Coordinator, EngineLink, FrontEndLink, Report, Start
from refengine.errors import PeerDied


def test_it_serves_its_peers_and_leaves_nothing() -> None:
    coordinator = Coordinator(1)
    engine, front = EngineLink(coordinator.addresses, 0), FrontEndLink(coordinator.addresses)
    folder = Path(coordinator.addresses.states.removeprefix("ipc://")).parent
    try:
        assert folder.stat().st_mode & 0o077 == 0
        assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}
        engine.send([Report(0, wants=0, work=True)])
        end = time.monotonic() + 10.0
        while engine.hear(0.2) != Start(0, (0,)):
            assert time.monotonic() < end, "the coordinator's start did not come"
        state = front.hear(5.0)
        assert state is not None
        assert engine.silent_for() < 5.0
    finally:
        engine.close()
        front.close()
        coordinator.close()
        coordinator.close()
    assert not folder.exists()
    assert not Path(f"/proc/{coordinator.pid}").exists()


def test_its_death_is_seen_at_its_sentinel_and_by_its_silence() -> None:
    coordinator = Coordinator(1)
    try:
        os.kill(coordinator.pid, signal.SIGKILL)
        assert wait([coordinator.sentinel], 5.0)
    finally:
        coordinator.close()


def test_one_that_cannot_listen_says_so() -> None:
    with pytest.raises(PeerDied, match="the coordinator"):
        Coordinator(1, host="127.0.0.1")
