"""Lines of a target's own functions: those that can be run, by function, and their bytes in a map.

Lines of a module or of a class body are left out: they are run as it is imported, which a zygote
has done before any play. So are functions that do nothing, such as a protocol's.
"""

from __future__ import annotations

import dis
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from types import CodeType

import msgspec

_FUNCTION = 0x1
"""``CO_OPTIMIZED``: code of a function, and not of a module or class body."""
_NOTHING = {"RESUME", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "NOP"}
_RESUME = dis.opmap["RESUME"]
_INDEX, _MAP = "lines.index", "lines.map"
"""Names of the two files in a play's folder."""


class Function(msgspec.Struct, frozen=True):
    """One function of the target's own, with the lambdas and comprehensions inside it."""

    name: str
    """Its qualified name."""
    line: int
    """Line of its ``def``, or of its first decorator."""
    lines: tuple[int, ...]
    """Lines that can be run, in their order."""


class Outline(msgspec.Struct, frozen=True):
    """The functions of one file."""

    digest: str
    """Hash of its text and of the interpreter's version, which places lines: if it is another, a
    line's number means another line."""
    functions: tuple[Function, ...]

    def lines(self) -> set[int]:
        """Return every line of them that can be run."""
        return {line for function in self.functions for line in function.lines}


def outline(path: str) -> Outline | None:
    """Return the functions of a Python file; None if it cannot be read or compiled."""
    try:
        text = Path(path).read_bytes()
        code = compile(text, path, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return None
    version = ".".join(map(str, sys.version_info[:2]))
    digest = hashlib.sha256(version.encode() + b"\n" + text).hexdigest()[:16]
    found = sorted(_functions(code), key=lambda function: function.line)
    return Outline(digest, tuple(found))


def runnable(code: CodeType) -> set[int]:
    """Return the lines of one code object that a trace function is called for.

    The interpreter reports none for what precedes a function's first own instruction.
    """
    begins = 2 * (1 + code.co_code[::2].find(_RESUME))
    return {line for _, end, line in code.co_lines() if line and end > begins}


def _functions(code: CodeType) -> Iterator[Function]:
    for inner in _inside(code):
        if not inner.co_flags & _FUNCTION or inner.co_name.startswith("<"):
            yield from _functions(inner)
            continue
        if not _does_nothing(inner):
            lines = runnable(inner).union(*map(runnable, _nameless(inner)))
            yield Function(inner.co_qualname, inner.co_firstlineno, tuple(sorted(lines)))
        yield from _functions(inner)


def _inside(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _nameless(code: CodeType) -> Iterator[CodeType]:
    """Yield the lambdas and comprehensions of a function, and those inside them."""
    for inner in _inside(code):
        if inner.co_name.startswith("<"):
            yield inner
            yield from _nameless(inner)


def _does_nothing(code: CodeType) -> bool:
    found = list(dis.get_instructions(code))
    given = [each.argval for each in found if each.opname in ("LOAD_CONST", "RETURN_CONST")]
    return {each.opname for each in found} <= _NOTHING and given == [None]


class LineMap:
    """Map of a target's files: a byte for each line, 1 where it was run.

    A play's folder holds the map and its index. Every process of the play that records maps the
    file, so nothing is lost when one is killed.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        """``files``: paths of the target's own files, by their path in its package."""
        self._places: dict[str, tuple[int, int]] = {}
        self._paths: dict[str, str] = {}
        self._outlines: dict[str, Outline | None] = {}
        end = 0
        self.others = sorted(name for name in files if not name.endswith(".py"))
        """Files that are not Python's, whose lines are not known."""
        for name, path in sorted(files.items()):
            if name in self.others or path in self._places:
                continue
            try:
                length = Path(path).read_bytes().count(b"\n") + 2
            except OSError:
                continue
            self._places[path], self._paths[name] = (end, length), path
            end += length
        self._size = end

    def lay(self, folder: Path) -> None:
        """Have every process of the play in this folder record."""
        if not self._size:
            return
        with (folder / _MAP).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self._size)  # else a full disk ends who writes
        (folder / _INDEX).write_bytes(msgspec.msgpack.encode(self._places))

    def read(self, folder: Path) -> dict[str, list[int]]:
        """Return the lines of functions that the play has run, by file."""
        if not self._size:
            return {}
        seen = (folder / _MAP).read_bytes()
        ran: dict[str, list[int]] = {}
        for name, path in self._paths.items():
            start, length = self._places[path]
            part = seen[start : start + length]
            known = self._outline(name) if any(part) else None
            if known is not None and (lines := [line for line in known.lines() if part[line]]):
                ran[name] = sorted(lines)
        return ran

    def outlines(self, ran: Iterable[str]) -> dict[str, Outline]:
        """Return the functions of these files and of all others in their folders.

        A package's top folder has what belongs to all of its parts: of it only the named files,
        unless it is the only folder.
        """
        ran = set(ran)
        parents = {name: PurePath(name).parent for name in self._paths}
        flat = len(set(parents.values())) == 1
        folders = {parents[name] for name in ran if flat or parents[name].parts}
        near = [name for name in parents if name in ran or parents[name] in folders]
        found = {name: self._outline(name) for name in near}
        return {name: known for name, known in found.items() if known is not None}

    def _outline(self, name: str) -> Outline | None:
        if name not in self._outlines:
            self._outlines[name] = outline(self._paths[name])
        return self._outlines[name]


def map_of(folder: Path) -> tuple[Path, dict[str, tuple[int, int]]] | None:
    """Return the map of the play in a folder, and each file's first byte and length in it.

    None if the play records no lines.
    """
    index = folder / _INDEX
    if not index.exists():
        return None
    return folder / _MAP, msgspec.msgpack.decode(
        index.read_bytes(), type=dict[str, tuple[int, int]]
    )
