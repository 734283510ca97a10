"""The place of a violation: the target's own line where a role was stuck, failed or was struck."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, cast

from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.syntax import parsed
from killpoint.verdict import TargetLine, Violation

_MENTION = re.compile(
    r"(?:(?P<before>[\w.<>]+) \()?(?P<file>[\w./+-]+\.py)"
    r"(?:\"?, line |:)(?P<line>\d+)(?:,? in (?P<after>[\w.<>]+))?"
)
"""``recv (a/queue.py:16)`` of a stack, ``queue.py:16 in recv`` of a point, ``(queue.py:16)`` of an
error, ``File "/x/a/queue.py", line 16, in recv`` of a traceback."""
_STRUCK = ("raised", "reached")
_TURNS = ("sched_yield",)
"""Functions that say how a loop waits, and are stood in by chance; their caller says what for."""


class _Function(NamedTuple):
    first: int
    last: int
    name: str


class OwnFiles:
    """The target's own files, and the lines of them that texts name.

    Args:
        files: path of each file, by its path in the target's package.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = dict(files)

    def named(self, text: str) -> list[TargetLine]:
        """Every line of the target's own that a text names, in its order."""
        found = (self._at(mention) for mention in _MENTION.finditer(text))
        return [line for line in found if line is not None]

    def _at(self, mention: re.Match[str]) -> TargetLine | None:
        file, number = mention["file"], int(mention["line"])
        word = mention["after"] or mention["before"] or ""
        function = word.rpartition(".")[2]
        if function[:1].isupper():  # a type of exceptions, before the line that raised it
            function = ""
        for own, path in self._files.items():
            is_it = any(f"/{each}".endswith(f"/{file}") for each in (own, path))
            told = _function(path, number, function) if is_it else None
            if told is not None:
                return TargetLine(own, told, number)
        return None


def place_of(
    violation: Violation, own: OwnFiles, history: History | None = None
) -> TargetLine | None:
    """Return the target's line to report for a violation; None if nothing names one.

    The line where a hanging role stood comes first, then those that the cause and its evidence
    name, last the line that a fault struck.
    """
    return next(_candidates(violation, own, history or History([])), None)


def _candidates(violation: Violation, own: OwnFiles, history: History) -> Iterator[TargetLine]:
    stuck = list(history.of("hang"))
    if violation.kind == "hang":
        yield from _stood([e for e in stuck if e.text("target") in violation.cause], own)
    yield from _of(violation.cause, own)
    for line in reversed(violation.evidence):
        if "error=" in line or "where=" in line or "line=" in line:
            yield from _of(line, own)
    yield from _stood(stuck, own)
    for event in history.of(*_STRUCK):
        yield from own.named(event.text("where"))


def _of(text: str, own: OwnFiles) -> list[TargetLine]:
    """The lines that a text names, what it means first: a traceback ends where it was raised."""
    named = own.named(text)
    return named[::-1] if ", line " in text else named


def _stood(hangs: list[Event], own: OwnFiles) -> Iterator[TargetLine]:
    """The innermost frame of the target's, of each who was stuck."""
    for event in hangs:
        frames = cast("list[object]", event.data.get("stack") or [])
        stood = [line for frame in frames for line in own.named(str(frame))]
        yield from sorted(stood, key=lambda line: line.function in _TURNS)


def _function(path: str, line: int, name: str) -> str | None:
    """Return the qualified name of the function at a line; None if the file has no such line.

    A given name settles it where lines have moved by an edit.
    """
    found = _functions(path)
    if found is None:
        return None
    length, functions = found
    inside = [each for each in functions if each.first <= line <= each.last]
    here = max(inside, key=lambda each: each.first).name if inside else ""
    plain = name if not name.startswith("<") else ""
    if not plain or here.rpartition(".")[2] == plain:
        return here if line <= length else None
    same = [each.name for each in functions if each.name.rpartition(".")[2] == plain]
    return same[0] if same else None


@lru_cache(maxsize=256)
def _functions(path: str) -> tuple[int, tuple[_Function, ...]] | None:
    """Return a file's number of lines, and its functions; None if it cannot be read."""
    try:
        text = Path(path).read_text("utf-8", "replace")
        tree = parsed(text)
    except (OSError, SyntaxError, ValueError):
        return None
    return text.count("\n") + 1, tuple(_below(tree, ""))


def _below(node: ast.AST, prefix: str) -> Iterator[_Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield _Function(child.lineno, child.end_lineno or child.lineno, name)
            yield from _below(child, f"{name}.")
        else:
            yield from _below(child, prefix)
