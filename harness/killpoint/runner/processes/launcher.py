"""Roles started by multiprocessing's own methods, from a parent that does nothing else."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import msgspec

from killpoint.runner.points.line_recorder import begin as begin_recording
from killpoint.runner.processes.entry import enter_play, live_as_role
from killpoint.runner.protocol import ForkRole
from killpoint.targets.protocol import Target
from killpoint.targets.registry import build


def launch(order: ForkRole, spec: str, target: Target) -> None:
    """Start the role as a child by ``order.start``, and end as the child ended."""
    context: Any = multiprocessing.get_context(order.start)  # the stubs know no Process on it
    inherited = target if order.start == "fork" else None
    child = context.Process(target=_enter, args=(msgspec.json.encode(order), spec, inherited))
    child.start()
    child.join()
    code: int = child.exitcode or 0
    if code < 0:
        os.kill(os.getpid(), -code)
    raise SystemExit(code)


def _enter(data: bytes, spec: str, inherited: Target | None) -> None:
    order = msgspec.json.decode(data, type=ForkRole)
    enter_play(Path(order.folder), order.role)
    target = inherited or build(spec)
    if inherited is None:
        target.load()
    begin_recording(Path(order.folder))
    live_as_role(order, target)
