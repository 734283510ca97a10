"""Report of the lines that a campaign has reached: by file, and the functions never entered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from killpoint.campaign.reached import FileReach, Reached
from killpoint.campaign.whole_file import write_whole
from killpoint.points.target_lines import Function
from killpoint.verdict import counted

_FILE = "never-reached.txt"
_FUNCTIONS = 10
"""Most functions never entered that are listed on a terminal."""


def print_reached(folder: Path, reached: Reached, console: Console) -> None:
    """Print what was reached, and the longest functions that never were entered."""
    for text in summary(reached):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    if len(never := _never_entered(reached)) > _FUNCTIONS:
        rest = f"  and {len(never) - _FUNCTIONS} more: {folder / _FILE}"
        console.print(rest, markup=False, highlight=False, soft_wrap=True)


def summary(reached: Reached) -> list[str]:
    """Return the lines of the report; none if no play was recorded."""
    plays = sum(case.plays for case in reached.cases.values())
    if not plays:
        return []
    told = [f"\nlines of the target's functions reached by {counted(plays, 'generated plays')}"]
    if not reached.files:
        return [*told, f"  not known: {_why_unknown(reached)}"]
    width = max(map(len, reached.files))
    for name, file in sorted(reached.files.items()):
        lines = file.outline.lines()
        if not lines:
            continue
        count = f"reached {len(file.first):>4} of {len(lines):>4} lines"
        told.append(f"  {name:<{width}}  {count}{_by(file)}")
    if reached.others:
        told.append(f"  not known of {counted(len(reached.others), 'files')} that are not Python's")
    never = _never_entered(reached)
    if never:
        told.append(f"never entered: {counted(len(never), 'functions')}")
        told += [f"  {text}" for text in map(_shown, never[:_FUNCTIONS])]
    return told


def write_never_reached(folder: Path, reached: Reached) -> None:
    """Store every function that was never entered, and the lines that were not reached."""
    if not reached.files:
        return
    told = ["# Functions of the target that no generated play of this campaign has entered."]
    told += map(_shown, _never_entered(reached))
    told += ["", "# Lines that none has reached, of functions that were entered."]
    for name, file in sorted(reached.files.items()):
        for function in file.outline.functions:
            left = [line for line in function.lines if line not in file.first]
            if left and len(left) < len(function.lines):
                told.append(f"{name}:{_ranges(function, left)}  {function.name}")
    write_whole(folder / _FILE, ("\n".join(told) + "\n").encode())


def _why_unknown(reached: Reached) -> str:
    if reached.others:
        return f"none of the target's {counted(len(reached.others), 'files')} is Python's"
    return "the target names no Python files of its own, or its processes record nothing"


def _by(file: FileReach) -> str:
    """Return which invariants' cases have reached how many of its lines first."""
    firsts: dict[str, int] = {}
    for case in file.first.values():
        invariant = case.partition("/")[0]
        firsts[invariant] = firsts.get(invariant, 0) + 1
    said = ", ".join(f"{count} by {name}" for name, count in sorted(firsts.items()))
    return f"  (first {said})" if said else ""


def _never_entered(reached: Reached) -> list[tuple[str, Function]]:
    """Return the functions that were never entered, with their files, the longest first."""
    found = list(_unentered(reached))
    return sorted(found, key=lambda each: (-len(each[1].lines), each[0], each[1].line))


def _unentered(reached: Reached) -> Iterator[tuple[str, Function]]:
    for name, file in reached.files.items():
        for function in file.outline.functions:
            if not file.reached(function):
                yield name, function


def _shown(each: tuple[str, Function]) -> str:
    name, function = each
    return f"{name}:{function.line}  {function.name}  ({counted(len(function.lines), 'lines')})"


def _ranges(function: Function, lines: list[int]) -> str:
    """Return lines as ranges, without a break at lines that cannot be run: ``12-15,20``."""
    places = {line: place for place, line in enumerate(function.lines)}
    ranges: list[tuple[int, int]] = []
    for line in lines:
        if ranges and places[line] == places[ranges[-1][1]] + 1:
            ranges[-1] = ranges[-1][0], line
        else:
            ranges.append((line, line))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
