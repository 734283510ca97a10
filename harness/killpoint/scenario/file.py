"""Scenarios as TOML files; an error in one names its line."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import tomli_w

from killpoint.errors import BadUsage
from killpoint.scenario.playable import unplayable
from killpoint.scenario.scenario import Scenario
from killpoint.scenario_errors import explain, line_of
from killpoint.targets.shapes import QueueShape

# msgspec learns a type at its first use; two threads in that at once crash the process (0.22).
_LEARNT = msgspec.json.Decoder(Scenario)


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
        scenario = msgspec.toml.decode(text, type=Scenario)
    except msgspec.ValidationError as error:
        line, what = explain(text, str(error), Scenario)
        raise BadUsage(f"{name}:{line}: {what}") from error
    except msgspec.DecodeError as error:
        at = re.search(r"line (\d+)", str(error))
        line = int(at.group(1)) if at else max(1, text.count("\n"))
        raise BadUsage(f"{name}:{line}: {error}; expected a scenario in TOML") from error
    for place, what in unplayable(scenario):
        raise BadUsage(f"{name}:{line_of(text, place)}: {what}")
    return scenario


def parse_shape(data: bytes) -> QueueShape:
    """Decode a queue's shape from the bytes of :func:`dump_shape`."""
    return msgspec.json.decode(data, type=QueueShape)


def dump_shape(shape: QueueShape) -> bytes:
    """Encode a queue's shape as bytes."""
    return msgspec.json.encode(shape)
