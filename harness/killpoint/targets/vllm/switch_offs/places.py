"""Places in the queue's code that several switch-offs edit."""

from __future__ import annotations

import ast

from killpoint.targets.edits import DoesNotFit, Edits, calls


def payloads(taking: ast.AST, socket: str = "local_socket") -> list[ast.Call]:
    """Return the calls that take a payload, by a queue's function or from the socket itself."""
    bare = [c for c in calls(taking, "recv") if ast.unparse(c.func) == f"self.{socket}.recv"]
    return bare or receives(taking, socket)


def receives(taking: ast.AST, socket: str) -> list[ast.Call]:
    """Return the calls of ``recv`` on one of the queue's sockets."""
    found = [c for c in calls(taking, "recv") if c.args and socket in ast.unparse(c.args[0])]
    if not found:
        raise DoesNotFit(f"nothing is received from {socket}")
    return found


def only(found: list[ast.Call]) -> ast.Call:
    """Return the one call that was found.

    Raises:
        DoesNotFit: there is none, or more than one.
    """
    if len(found) != 1:
        raise DoesNotFit(f"{len(found)} calls where one was expected")
    return found[0]


def imported(edits: Edits, module: str) -> None:
    """Have a module imported whole, if it is not."""
    if not edits.imports(module):
        edits.top(f"import {module}")
