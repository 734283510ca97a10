"""Lines of the target in a worker: where an exception strikes, and what is counted."""

from __future__ import annotations

import sys
import threading
from types import CodeType
from typing import Any

import pytest

from killpoint.runner.points import worker_points
from killpoint.runner.points.worker_points import WorkerLines
from killpoint.runner.processes.target_agent import Armed
from killpoint.scenario import Point

_LOCKED = """
def serve(begin, end):
    begin()
    with lock:
        seen.append("in")
    seen.append("out")
    end()
"""


class Struck(Exception):
    pass


class Presence:
    def __init__(self, arm: Armed) -> None:
        self.arm = arm
        self.log = self
        self.said: list[dict[str, object]] = []

    def due(self, _op: str) -> Armed:
        return self.arm

    def meet(self, _arm: Armed, where: str) -> None:
        raise Struck(where)

    def write(self, _kind: str, **said: object) -> None:
        self.said.append(said)


@pytest.mark.parametrize(("line", "throws", "where"), [(2, True, 6), (2, False, 4), (3, True, 6)])
def test_no_exception_strikes_where_a_with_block_is_left(
    line: int, throws: bool, where: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_own(code: CodeType) -> bool:
        return code.co_filename == "<own>"

    monkeypatch.setattr(worker_points, "_own_code", lambda: is_own)
    own: dict[str, Any] = {"lock": threading.Lock(), "seen": []}
    exec(compile(_LOCKED, "<own>", "exec"), own)
    point = Point("serve", line=line)
    presence: Any = Presence(Armed(1, point, throws=throws))  # pyright: ignore[reportArgumentType] # a role knows less of a place
    watched = WorkerLines(presence)
    before = sys.gettrace()
    try:
        with pytest.raises(Struck, match=f"<own>:{where} "):
            own["serve"](lambda: watched.begin("serve"), watched.end)
    finally:
        watched.end()
        sys.settrace(before)
    assert own["lock"].locked() == (where == 4)
