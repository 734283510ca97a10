"""Replay files: a scenario as TOML text, with comments on its content and the expected outcome."""

from __future__ import annotations

import re
import textwrap

from killpoint.invariants import BY_ID
from killpoint.scenario.file import dump
from killpoint.scenario.scenario import Scenario

_KEY = re.compile(r"^(line|page|store|call|after|spread|name|nth) = ")
_OP = re.compile(r'^op = "(?P<op>[^"]*)"')
_WIDTH = 98

_COUNTED = {
    "line": "counted from 0 over the {deep} of the target's own code that this {op} runs, in the"
    " order in which they run: no line number of a file",
    "page": "counted from 0 over the pages of shared memory that this {op} fills",
    "store": "2k is before, 2k + 1 after this {op}'s k-th store to shared words, from 0",
    "call": "counted from 0 over those system calls of the role's native threads",
    "after": "seconds after this {op} has begun",
    "spread": "plays, each struck at another time of this {op}",
    "name": "a named place in this {op}",
    "nth": "in the how-many-th {op} of the role, counted from 0 after this step",
}


def replay_text(scenario: Scenario, summary: str = "", cause: str = "") -> str:
    """Return the scenario as text that :func:`killpoint.scenario.parse` reads back.

    Args:
        summary: what the case does, in a line.
        cause: the violation for which the scenario was kept.
    """
    return _head(scenario, summary, cause) + _points_told(dump(scenario))


def _head(scenario: Scenario, summary: str, cause: str) -> str:
    happens = f"What happens: {summary}. " if summary else "What happens: "
    happens += (
        "The steps are taken from top to bottom; a fault that has a point (`at`) strikes when its"
        " role comes there, in a later step."
    )
    told = [f"{scenario.case}", happens]
    told += [
        f"What is expected: {id} ({BY_ID[id].level}): {BY_ID[id].clause}"
        for id in scenario.judges
        if id in BY_ID
    ]
    told += [f"What was seen: {cause}"] if cause else []
    if scenario.plays > 1:
        told.append(
            f"How often: up to {scenario.plays} plays, until one shows it: what its threads or"
            " processes do first differs from play to play."
        )
    told.append(
        "`killpoint replay` of this file ends with status 1 if that is seen again, 0 if it is not,"
        " 3 if a point was not reached."
    )
    return "".join(f"{line}\n" for each in told for line in _commented(each)) + "\n"


def _commented(text: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="#   ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _points_told(text: str) -> str:
    """Return the text with a comment above each number or name of a point, on what it counts."""
    told: list[str] = []
    lines = text.split("\n")
    op, deep = "", "lines"
    for number, line in enumerate(lines):
        if line.startswith("["):
            op = ""
            if line == "[steps.at]":
                block = lines[number + 1 :]
                end = next((i for i, each in enumerate(block) if each.startswith("[")), len(block))
                found = [m["op"] for each in block[:end] if (m := _OP.match(each))]
                op = found[0] if found else ""
                deep = "instructions" if 'depth = "opcode"' in block[:end] else "lines"
        key = _KEY.match(line)
        if op and key:
            told += _commented(f"{key[1]}: {_COUNTED[key[1]].format(op=op, deep=deep)}")
        told.append(line)
    return "\n".join(told)
