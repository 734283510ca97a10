"""Syntax trees of Python source, one at a time in a process.

CPython 3.11 counts the depth of the tree that it builds once for all threads: of two that build one
at a time, one may end in ``SystemError: AST constructor recursion depth mismatch``
(python/cpython#106905). It takes a change of threads in the midst of it, which code that the
garbage collector calls can bring.
"""

from __future__ import annotations

import ast
import threading

_one_at_a_time = threading.Lock()


def parsed(source: str | bytes) -> ast.Module:
    """Return the syntax tree of a module's source.

    Raises:
        SyntaxError: it is no Python.
        ValueError: it cannot be encoded.
    """
    with _one_at_a_time:
        return ast.parse(source)
