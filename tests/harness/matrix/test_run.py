"""Replays of several targets at a time, and an interrupt meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored_rows import ASKED, stored

from killpoint.matrix import replays
from killpoint.matrix.page import Head
from killpoint.matrix.row import Row
from killpoint.matrix.run import Plan, run

_WITHIN = 20.0


def test_an_interrupt_ends_the_replays_of_other_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    targets = ["vllm==0.25.0", "vllm==0.26.0"]
    for target in targets:
        stored(tmp_path, target)
    others, ended = threading.Event(), threading.Event()

    def confirm(_place: Any, row: Row, _copies: Any, _tell: Any, over: Callable[[], bool]) -> None:
        if row.target == targets[0]:
            assert others.wait(_WITHIN), "the targets were not replayed at the same time"
            raise KeyboardInterrupt
        others.set()
        if _until(over):
            ended.set()

    monkeypatch.setattr(replays, "confirm", confirm)
    page, head = tmp_path / "m.md", Head("", "", True)
    plan = Plan(targets, ASKED, tmp_path, page, head, confirm=True, jobs=2)
    with pytest.raises(KeyboardInterrupt):
        run(plan, lambda _: None)
    assert ended.is_set()


def _until(over: Callable[[], bool]) -> bool:
    """Whether it is over within a while."""
    tick = threading.Event()
    return any(over() or tick.wait(0.01) for _ in range(int(_WITHIN / 0.01)))
