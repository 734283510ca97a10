"""Makes :mod:`synthetic` importable, and keeps an eye on what a test leaves behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zygote_template


def _children() -> set[str]:
    me = os.getpid()
    return {
        kid
        for task in Path(f"/proc/{me}/task").iterdir()
        for kid in (task / "children").read_text().split()
    }


@pytest.fixture
def leftovers() -> Callable[[], set[str]]:
    """What exists now and did not before: children of this process."""
    before = _children()
    return lambda: _children() - before - {str(pid) for pid in zygote_template.RUNNING}
