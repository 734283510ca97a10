"""A wait that comes late is logged with how late it was, and one in time is not."""

from __future__ import annotations

import select
import threading
from pathlib import Path
from typing import Any

import pytest

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.runner.observe import scheduling_jitter


def test_late_waits_are_logged_until_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, done = select.select, threading.Event()
    waits = [0.0, 0.06, 0.0]

    class Slow:
        @staticmethod
        def select(*given: Any) -> Any:
            return real(*given[:3], given[3] + waits.pop())

    def over() -> bool:
        if not waits:
            done.set()
        return not waits

    monkeypatch.setattr(scheduling_jitter, "select", Slow)
    scheduling_jitter.watch(Log(tmp_path / "x.jsonl", "x"), over)
    assert done.wait(10.0)
    late = [event.number("ns") for event in History.read(tmp_path).of("late-tick")]
    assert any(ns > 55_000_000 for ns in late)
    assert all(ns > 5_000_000 for ns in late)
