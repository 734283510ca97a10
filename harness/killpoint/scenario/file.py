"""Scenarios as TOML files; an error in one names its line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import msgspec
import tomli_w

from killpoint.errors import BadUsage
from killpoint.scenario.playable import unplayable
from killpoint.scenario.scenario import Scenario
from killpoint.scenario_errors import explain, line_of
from killpoint.targets.shapes import QueueShape

# msgspec learns a type at its first use; two threads in that at once crash the process (0.22).
_LEARNT = msgspec.json.Decoder(Scenario)


_FORMERLY = {
    "again": "retry",
    "look": "probe-exposure",
    "weigh": "measure-memory",
    "intrude": "attack",
    "recheck": "verify-held",
    "settle": "wait-blocked",
    "tell": "report-counts",
    "hear": "wait-news",
    "serve": "continue-load",
    "recover": "wait-healthy",
    "calm": "wait-idle",
    "alone": "reference-answers",
    "server-serve": "server-continue-load",
    "server-calm": "server-wait-idle",
    "server-again": "server-wait-restarted",
    "server-alive": "server-wait-alive",
    "server-gone": "server-wait-gone",
    "server-restored": "server-wait-restored",
    "server-refuse": "server-send-invalid",
}
"""Names of steps by those that files written before 2026-11-25 have: such files go on playing."""


def dump(scenario: Scenario) -> str:
    """Return the scenario as TOML text that :func:`parse` reads back."""
    return tomli_w.dumps(msgspec.to_builtins(scenario))


def load(path: Path) -> Scenario:
    """Read the scenario in a file.

    Raises:
        BadUsage: the file cannot be read or is not a scenario: file, line, what, expected.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"{path}: cannot be read: {error}; expected a scenario file") from error
    return parse(text, str(path))


def parse(text: str, name: str) -> Scenario:
    """Read the scenario in a text; ``name`` stands for it in errors."""
    try:
        read = _with_current_names(msgspec.toml.decode(text))
    except msgspec.DecodeError as error:
        at = re.search(r"line (\d+)", str(error))
        line = int(at.group(1)) if at else max(1, text.count("\n"))
        raise BadUsage(f"{name}:{line}: {error}; expected a scenario in TOML") from error
    try:
        scenario = msgspec.convert(read, Scenario)
    except msgspec.ValidationError as error:
        line, what = explain(text, str(error), Scenario, read)
        raise BadUsage(f"{name}:{line}: {what}") from error
    for place, what in unplayable(scenario):
        raise BadUsage(f"{name}:{line_of(text, place)}: {what}")
    return scenario


def _with_current_names(read: dict[str, object]) -> dict[str, object]:
    """Give the steps of a file that was read the names that they have now."""
    steps = read.get("steps")
    for step in cast("list[object]", steps) if isinstance(steps, list) else ():
        table = cast("dict[str, object]", step) if isinstance(step, dict) else {}
        name = table.get("do")
        if isinstance(name, str) and name in _FORMERLY:
            table["do"] = _FORMERLY[name]
    return read


def parse_shape(data: bytes) -> QueueShape:
    """Decode a queue's shape from the bytes of :func:`dump_shape`."""
    return msgspec.json.decode(data, type=QueueShape)


def dump_shape(shape: QueueShape) -> bytes:
    """Encode a queue's shape as bytes."""
    return msgspec.json.encode(shape)
