"""The line at which a target's own traceback ends."""

from __future__ import annotations

import json
from pathlib import Path

import killpoint.targets
from killpoint.runner.points import traceback_line

_FRAME = '  File "{}", line {}, in something\n    a = line\n'


def test_the_last_line_of_the_targets_own_is_told(tmp_path: Path) -> None:
    paths = [
        "/root/cache/0.33.0/vllm/v1/engine/coordinator.py",
        json.__file__,
        "/env/lib/python3.11/site-packages/msgspec/msgpack.py",
        killpoint.targets.__file__,
    ]
    complaints = tmp_path / "parent.err"
    frames = "".join(_FRAME.format(path, 7 + n) for n, path in enumerate(paths))
    complaints.write_text(f"a warning\nTraceback (most recent call last):\n{frames}ValueError: x\n")
    assert traceback_line.last(complaints) == "v1/engine/coordinator.py:7"


def test_without_a_traceback_there_is_none(tmp_path: Path) -> None:
    assert traceback_line.last(tmp_path / "nobody.err") == ""
