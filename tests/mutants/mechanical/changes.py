"""A change: one operator applied at one place of a file, described so that a person can read it."""

from __future__ import annotations

import ast
import copy
import marshal
from collections.abc import Iterator
from dataclasses import dataclass, field

from mechanical.operators import OPERATORS

Path = tuple[tuple[str, int | None], ...]
"""The way from the module's root to a node: a field, and the index where that is a list."""

_UNTOUCHED = {"annotation", "returns", "decorator_list", "type_params"}
"""What is for type checkers, or shapes a class as a whole."""
_Clause = ast.stmt | ast.ExceptHandler | ast.match_case
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True)
class Change:
    """One mutant of one file."""

    file: str
    """Below the package, like ``group/store_group.py``."""
    scope: str
    """The function or class it stands in, like ``RingWriter.publish``."""
    line: int
    """The first line of its statement."""
    operator: str
    old: str
    """The statement; of a compound one its head."""
    new: str
    path: Path = field(repr=False)
    node: ast.AST = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """Where it is, and what: for a list of survivors."""
        return f"{self.file}:{self.line} {self.scope}: {self.old}  ->  {self.new}"


def changes(file: str, source: str) -> list[Change]:
    """Every change of a file, in its order; none that compiles to what was there before."""
    unchanged = marshal.dumps(compile(ast.parse(source), file, "exec"))
    return [
        change
        for change in candidates(file, source)
        if marshal.dumps(compile(planted(source, change), file, "exec")) != unchanged
    ]


def candidates(file: str, source: str) -> list[Change]:
    """Every change that an operator offers, without a look at what it compiles to."""
    return _Search(file, source).found


def planted(source: str, change: Change) -> ast.Module:
    """The source's tree with the change made."""
    tree = ast.parse(source)
    new = copy.deepcopy(change.node)
    ast.copy_location(new, _at(tree, change.path))
    _put(tree, change.path, new)
    return ast.fix_missing_locations(tree)


class _Search:
    """Walks a tree and notes what each operator offers at each node."""

    def __init__(self, file: str, source: str) -> None:
        self.found: list[Change] = []
        self._file = file
        self._walk(ast.parse(source), (), "module", None)

    def _walk(
        self, node: ast.AST, path: Path, scope: str, inside: tuple[_Clause, int, int] | None
    ) -> None:
        """``inside``: the innermost clause, how long the way to it is, its statement's line."""
        if isinstance(node, ast.stmt):
            inside = node, len(path), node.lineno
        elif inside is not None and isinstance(node, ast.ExceptHandler | ast.match_case):
            inside = node, len(path), inside[2]
        if inside is not None:
            self._note(node, path, scope, *inside)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            scope = node.name if scope == "module" else f"{scope}.{node.name}"
        for step, child in _children(node):
            self._walk(child, (*path, step), scope, inside)

    def _note(
        self, node: ast.AST, path: Path, scope: str, inside: _Clause, depth: int, line: int
    ) -> None:
        for operator in OPERATORS:
            for new in operator(node):
                head = _head(inside)
                if path[depth:]:
                    _put(head, path[depth:], new)
                else:
                    head = _head(new)
                self.found.append(
                    Change(
                        self._file,
                        scope,
                        line,
                        operator.__name__,
                        _text(_head(inside)),
                        _text(head),
                        path,
                        new,
                    )
                )


def _children(node: ast.AST) -> Iterator[tuple[tuple[str, int | None], ast.AST]]:
    for name, value in ast.iter_fields(node):
        if name in _UNTOUCHED or isinstance(node, ast.JoinedStr):
            continue
        if name == "args" and isinstance(node, ast.Call) and _kills(node.func):
            continue
        if isinstance(node, ast.ClassDef) and name == "keywords":
            continue
        if isinstance(value, ast.AST):
            yield (name, None), value
        elif isinstance(value, list):
            for index, part in enumerate(value):
                if isinstance(part, ast.AST):
                    yield (name, index), part


def _kills(called: ast.expr) -> bool:
    """Return whether a call sends a signal to processes by number: 1 or -1 is all of the user's."""
    return isinstance(called, ast.Attribute) and called.attr in ("kill", "killpg")


def _at(node: ast.AST, path: Path) -> ast.AST:
    for name, index in path:
        value = getattr(node, name)
        node = value if index is None else value[index]
    return node


def _put(root: ast.AST, path: Path, new: ast.AST) -> None:
    holder = _at(root, path[:-1])
    name, index = path[-1]
    if index is None:
        setattr(holder, name, new)
    else:
        getattr(holder, name)[index] = new


def _head(node: ast.AST) -> ast.AST:
    """A copy of a statement without the statements in it."""
    node = copy.copy(node)
    for name in _BODIES:
        if isinstance(getattr(node, name, None), list):
            setattr(node, name, [])
    return copy.deepcopy(node)


def _text(head: ast.AST) -> str:
    if isinstance(head, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        head.decorator_list = []
    return ast.unparse(ast.fix_missing_locations(head)).strip()
