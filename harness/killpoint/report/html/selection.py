"""Selection of what fits into the file: plays of violations first, logs of what held last."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from killpoint.report.html.cells import CaseCell
from killpoint.report.html.diagram import diagram
from killpoint.report.html.packing import pack, said

_MOST_EVENTS = 3000
"""A page with more of them would be slow to open."""
_FEWEST_EVENTS = 60
_AROUND = 60
"""Bytes that the page needs around each part, its name among them."""
_LOUD = ("violated", "inconclusive")


class Selection(msgspec.Struct):
    """The parts that the file carries, by name."""

    parts: dict[str, str] = {}
    cuts: list[str] = []
    """Parts that the file does not carry, a sentence each."""


def select(
    cases: Sequence[CaseCell], room: int, limit: str, patience: float | None = None
) -> Selection:
    """Take in as much of the cases' plays as fits, and note in each case what it lost.

    Logs of what held go first, then its longest plays; then the longest plays of violations are
    shortened to what lies around the violation.

    Args:
        cases: of every run; ``play``, ``log`` and ``cut`` are set here.
        room: bytes that there are.
        limit: the file's size limit, in words.
        patience: seconds after which no further play is taken in.
    """
    end = None if patience is None else time.monotonic() + patience
    choice = _Choice(room, limit, end)
    recorded = [case for case in cases if case.folder]
    loud = [case for case in recorded if case.outcome in _LOUD]
    well = sorted((case for case in recorded if case.outcome not in _LOUD), key=_bytes)
    choice.shortened(loud)
    choice.logs(loud)
    choice.whole(well)
    choice.logs(well)
    return choice.made()


class _Choice:
    """Takes parts in while there is room and time."""

    def __init__(self, room: int, limit: str, end: float | None) -> None:
        self._parts: dict[str, str] = {}
        self._room = room
        self._limit = limit
        self._end = end
        self._left: Counter[str] = Counter()

    def shortened(self, cases: Sequence[CaseCell]) -> None:
        """Plays, of which the longest are shortened until all fit."""
        packed = [_Packed(case, _MOST_EVENTS, self._packed(case)) for case in cases]
        while packed and sum(len(each.text) + _AROUND for each in packed) > self._room:
            longest = max(packed, key=lambda each: len(each.text))
            longest.most //= 2
            if longest.most < _FEWEST_EVENTS:
                packed.remove(longest)
                self._leave(longest.case, "record")
            else:
                longest.text = self._packed(longest.case, longest.most)
        for each in packed:
            if each.text:
                each.case.play = self._add("play", each.text)

    def whole(self, cases: Sequence[CaseCell]) -> None:
        """Plays as they are, until one does not fit."""
        full = False
        for case in cases:
            text = "" if full else self._packed(case)
            full = full or len(text) + _AROUND > self._room
            if full:
                self._leave(case, "record")
            elif text:
                case.play = self._add("play", text)

    def logs(self, cases: Sequence[CaseCell]) -> None:
        """Add what the processes of those plays wrote that were taken in."""
        for case in cases:
            written = said(Path(case.folder)) if case.play else []
            text = pack(written) if written else ""
            if text and len(text) + _AROUND > self._room:
                self._leave(case, "log")
            elif text:
                case.log = self._add("log", text)

    def made(self) -> Selection:
        """Return the selection, with sentences on what was left out."""
        cuts: list[str] = []
        large = [_count(self._left[what], what) for what in ("record", "log") if self._left[what]]
        if large:
            cuts.append(f"To stay under {self._limit}, this file leaves out {' and '.join(large)}.")
        if late := self._left["play"]:
            cuts.append(f"The check did not wait for {_count(late, 'play')}. {_LATER}")
        return Selection(self._parts, cuts)

    def _packed(self, case: CaseCell, most: int = _MOST_EVENTS) -> str:
        """A case's diagram; empty if there is no time for it, or nothing to be drawn."""
        if self._end is not None and time.monotonic() > self._end:
            if not case.cut:
                self._left["play"] += 1
                case.cut = f"The check did not wait for this diagram. {_LATER}"
            return ""
        try:
            return pack(diagram(Path(case.folder), case.evidence, most))
        except Exception as error:
            # One record that is damaged, or of another release, must not cost the report.
            case.cut = f"The record in {case.folder} cannot be drawn: {error!r}."
            return ""

    def _add(self, what: str, text: str) -> str:
        name = f"{what}-{len(self._parts)}"
        self._parts[name] = text
        self._room -= len(text) + _AROUND
        return name

    def _leave(self, case: CaseCell, what: str) -> None:
        self._left[what] += 1
        lost = {"record": "The record of this play", "log": "What its processes wrote"}[what]
        case.cut = f"{lost} is not in this file, which stays under {self._limit}: {case.folder}."


_LATER = "`killpoint report RUN` waits."


class _Packed(msgspec.Struct, eq=False):
    """A play that may have to be shortened."""

    case: CaseCell
    most: int
    text: str


def _count(number: int, what: str) -> str:
    words = {"record": "the records of", "log": "the logs of", "play": ""}[what]
    return f"{words} {number} play{'s' * (number != 1)}".strip()


def _bytes(case: CaseCell) -> int:
    return sum(file.stat().st_size for file in Path(case.folder).glob("*.jsonl"))
