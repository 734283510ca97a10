"""Which tests touch which statements: a marker before each, in memory that forked roles share.

A byte is set before a statement runs, so even a role that is killed in the next instant leaves
its footprint; and no trace function is in the way of tests that install their own.
"""

from __future__ import annotations

import ast
import builtins
import mmap

_NAME = "__footprint__"
_ROOM = 1 << 16


class Floor:
    """A byte for each statement; forked processes step on the same one."""

    def __init__(self) -> None:
        self._bytes = mmap.mmap(-1, _ROOM)
        self._places: list[tuple[str, int]] = []

    def lay(self) -> None:
        """Where the markers find it, in this process and those forked from it."""
        setattr(builtins, _NAME, self._bytes)

    def marked(self, file: str, source: str) -> ast.Module:
        """The source's tree with a marker before each statement."""
        tree = ast.parse(source)
        for node in list(ast.walk(tree)):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                    setattr(node, name, self._block(file, block))
        return ast.fix_missing_locations(tree)

    def lift(self) -> set[tuple[str, int]]:
        """The (file, line) of each statement that was touched since the last time."""
        touched = {place for i, place in enumerate(self._places) if self._bytes[i]}
        self._bytes[: len(self._places)] = bytes(len(self._places))
        return touched

    def _block(self, file: str, block: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for index, statement in enumerate(block):
            if not _stands_first(statement, index):
                out.append(self._marker(file, statement))
            out.append(statement)
        return out

    def _marker(self, file: str, statement: ast.stmt) -> ast.stmt:
        number = len(self._places)
        self._places.append((file, statement.lineno))
        if number >= _ROOM:
            raise OverflowError(f"more than {_ROOM} statements; expected a smaller package")
        target = ast.Subscript(ast.Name(_NAME, ast.Load()), ast.Constant(number), ast.Store())
        marker = ast.Assign([target], ast.Constant(1))
        for part in ast.walk(marker):
            if isinstance(part, ast.expr | ast.stmt):
                # On the statement's own line: tests count the lines that are run.
                part.lineno = part.end_lineno = statement.lineno
                part.col_offset = part.end_col_offset = 0
        return marker


def _stands_first(statement: ast.stmt, index: int) -> bool:
    """A docstring, or an import from the future: nothing may stand before them."""
    if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
        return True
    return (
        index == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )
