"""Edits of a source file by its syntax: the form of a switch-off of a target's code.

An edit names a function by its qualified name and a statement or call inside it by its shape, never
by its line: so it fits several releases, and reports where it does not.
"""

from __future__ import annotations

import ast
import difflib
import textwrap
from collections.abc import Callable, Iterator
from typing import TypeVar

from killpoint.syntax import parsed

Function = ast.FunctionDef | ast.AsyncFunctionDef
_Spot = tuple[int, int]
_Definition = TypeVar("_Definition", bound=ast.AST)


class DoesNotFit(Exception):
    """The file has no such place, or the place has another shape."""


class Edits:
    """Text of one module, and the changes to be made in it.

    Positions are those of the text as it came; :meth:`text` applies all changes at once.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.encode().splitlines(keepends=True)
        self._tree = parsed(text)
        self._changes: list[tuple[_Spot, _Spot, str]] = []

    def function(self, qualified: str) -> Function:
        """The function of this name, such as ``Queue.send`` or ``Queue.send.check``.

        Raises:
            DoesNotFit: there is none.
        """
        return self._definition(qualified, ast.FunctionDef, ast.AsyncFunctionDef)

    def klass(self, qualified: str) -> ast.ClassDef:
        """The class of this name.

        Raises:
            DoesNotFit: there is none.
        """
        return self._definition(qualified, ast.ClassDef)

    def first(self, *qualified: str) -> ast.AST:
        """The first of several functions or classes that is there.

        Raises:
            DoesNotFit: none is.
        """
        for name in qualified:
            try:
                return self._definition(name, ast.AST)
            except DoesNotFit:
                continue
        raise DoesNotFit(f"there is no {' or '.join(qualified)}")

    def imports(self, module: str) -> bool:
        """Return whether the file imports a module by its own name."""
        plain = (each for each in self._tree.body if isinstance(each, ast.Import))
        return any(each.name == module and not each.asname for line in plain for each in line.names)

    def begin(self, inside: Function | ast.ClassDef, code: str) -> None:
        """Put statements before the first one of a body, behind its docstring."""
        first = next((each for each in inside.body if not _is_docstring(each)), None)
        if first is None:
            raise DoesNotFit(f"{inside.name} has no body")
        self.before(first, code)

    def before(self, statement: ast.stmt | ast.ExceptHandler, code: str) -> None:
        """Put statements before one, or a handler before another, at its indentation."""
        at = self._start(statement)
        self._changes.append((at, at, self._indented(code, statement.col_offset)))

    def after(self, statement: ast.stmt, code: str) -> None:
        """Put statements behind one, at its indentation."""
        at = (_ended(statement)[0] + 1, 0)
        self._changes.append((at, at, self._indented(code, statement.col_offset)))

    def instead(self, node: ast.stmt | ast.expr, code: str) -> None:
        """Replace an expression or a whole statement."""
        if isinstance(node, ast.expr):
            self._changes.append(((node.lineno, node.col_offset), _ended(node), code))
            return
        text = self._indented(code, node.col_offset)
        self._changes.append((self._start(node), (_ended(node)[0] + 1, 0), text))

    def keyword(self, call: ast.Call, name: str, value: str) -> None:
        """Replace the value of a keyword argument of a call, or add the argument."""
        for given in call.keywords:
            if given.arg == name:
                self.instead(given.value, value)
                return
        line, column = _ended(call)
        separator = ", " if call.args or call.keywords else ""
        self._changes.append(((line, column - 1), (line, column - 1), f"{separator}{name}={value}"))

    def parameter(self, function: Function, code: str) -> None:
        """Put a parameter behind those of a function, none of which has a default.

        Raises:
            DoesNotFit: it has none, or one that is not positional.
        """
        given = function.args
        if not given.args or given.defaults or given.vararg or given.kwonlyargs or given.kwarg:
            raise DoesNotFit(f"{function.name} has other parameters")
        row, column = given.args[-1].end_lineno, given.args[-1].end_col_offset
        assert row is not None
        assert column is not None
        self._changes.append(((row, column), (row, column), f", {code}"))

    def top(self, code: str) -> None:
        """Put statements behind the module's imports from the future and its docstring."""
        skipped = (each for each in self._tree.body if not _is_preamble(each))
        first = next(skipped, None)
        if first is None:
            raise DoesNotFit("the module is empty")
        self.before(first, code)

    def text(self) -> str:
        """The module with all changes made.

        Raises:
            DoesNotFit: nothing was changed, or the result is no Python.
        """
        if not self._changes:
            raise DoesNotFit("nothing was changed")
        lines = [*self._lines, b""]
        for (row, column), (last, end), new in sorted(self._changes, key=_place, reverse=True):
            tail = lines[last - 1][end:] + b"".join(lines[last:])
            head = b"".join(lines[: row - 1]) + lines[row - 1][:column]
            lines = [*(head + new.encode() + tail).splitlines(keepends=True), b""]
        text = b"".join(lines).decode()
        try:
            parsed(text)
        except SyntaxError as error:
            raise DoesNotFit(f"line {error.lineno}: {error.msg}") from error
        return text

    def _definition(self, qualified: str, *kinds: type[_Definition]) -> _Definition:
        place: ast.AST = self._tree
        for name in qualified.split("."):
            inner = (
                each
                for each in ast.walk(place)
                if isinstance(each, Function | ast.ClassDef) and each.name == name
            )
            found = next(inner, None)
            if found is None:
                raise DoesNotFit(f"there is no {qualified}")
            place = found
        if not isinstance(place, kinds):
            raise DoesNotFit(f"{qualified} is of another kind")
        return place

    @staticmethod
    def _start(statement: ast.stmt | ast.ExceptHandler) -> _Spot:
        decorated = getattr(statement, "decorator_list", [])
        return min([statement.lineno, *(each.lineno for each in decorated)]), 0

    @staticmethod
    def _indented(code: str, columns: int) -> str:
        return textwrap.indent(textwrap.dedent(code).strip("\n"), " " * columns) + "\n"


def added(before: str, after: str) -> frozenset[int]:
    """Return the lines of a text, from 1, that have no counterpart in another one.

    If lines took the place of fewer ones, the last of them are the counterparts: a statement that
    was put before another is new, also where the other was changed.
    """
    lines = before.splitlines(), after.splitlines()
    found: set[int] = set()
    for _, i1, i2, j1, j2 in difflib.SequenceMatcher(None, *lines, autojunk=False).get_opcodes():
        found |= {*range(j1 + 1, max(j1, j2 - (i2 - i1)) + 1)}
    return frozenset(found)


def calls(inside: ast.AST, name: str) -> list[ast.Call]:
    """Calls of a function or method by its last name, such as ``recv`` for ``socket.recv()``.

    Raises:
        DoesNotFit: there is none.
    """
    found = [n for n in ast.walk(inside) if isinstance(n, ast.Call) and _called(n) == name]
    if not found:
        raise DoesNotFit(f"nothing calls {name}")
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def statement(inside: ast.AST, fits: Callable[[ast.stmt], bool], what: str) -> ast.stmt:
    """The first statement for which ``fits`` is true, the outermost of nested ones.

    Raises:
        DoesNotFit: there is none; ``what`` says what was looked for.
    """
    found = next((each for each in _statements(inside) if fits(each)), None)
    if found is None:
        raise DoesNotFit(f"there is no {what}")
    return found


def assignment(inside: ast.AST, to: str, what: str, of: str = "") -> ast.Assign:
    """The first assignment to ``to`` whose value has the words ``of`` in it.

    Raises:
        DoesNotFit: there is none; ``what`` says what was looked for.
    """
    for each in _statements(inside):
        if not isinstance(each, ast.Assign) or ast.unparse(each.targets[0]) != to:
            continue
        if of in ast.unparse(each.value):
            return each
    raise DoesNotFit(f"there is no {what}")


def branch(inside: ast.AST, test: str, what: str) -> ast.If:
    """The first ``if`` with this test.

    Raises:
        DoesNotFit: there is none; ``what`` says what was looked for.
    """
    for each in _statements(inside):
        if isinstance(each, ast.If) and ast.unparse(each.test) == test:
            return each
    raise DoesNotFit(f"there is no {what}")


def around(inside: ast.AST, node: ast.AST) -> ast.stmt:
    """The innermost statement that has a node in it."""
    holders = [s for s in _statements(inside) if any(each is node for each in ast.walk(s))]
    if not holders:
        raise DoesNotFit("the node is in no statement")
    return holders[-1]


def _statements(inside: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(inside):
        if isinstance(child, ast.stmt):
            yield child
        yield from _statements(child)


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _ended(node: ast.stmt | ast.expr) -> _Spot:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _place(change: tuple[_Spot, _Spot, str]) -> tuple[_Spot, _Spot]:
    return change[0], change[1]


def _is_docstring(each: ast.stmt) -> bool:
    return isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)


def _is_preamble(each: ast.stmt) -> bool:
    return _is_docstring(each) or (isinstance(each, ast.ImportFrom) and each.module == "__future__")
