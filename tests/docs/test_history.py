"""The schema of histories: each event that the code writes is on the page, with its fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from doc_pages import ROOT, prose

_PAGE = ROOT / "docs" / "history.md"
_HARNESS = ROOT / "harness" / "killpoint"
_WRITERS = {"write", "_log", "_say"}
_BY_VARIABLE = {
    *("call", "submit", "seen", "socket-path", "file-rights", "part-ended", "front-ended"),
    "canary",
}
"""Kinds that are handed to a function which writes them, or written without a log."""
_EVERYWHERE = {"s", "timeout", "outcome", "error"}
"""Said of every call in the page's table of common fields."""


def _rows() -> dict[str, set[str]]:
    """Each kind of the page, with the fields that its rows name."""
    found: dict[str, set[str]] = {}
    kinds = prose(_PAGE).partition("## Orders and faults")[2].partition("## The ledger")[0]
    for row in re.findall(r"^\| (`[a-z`, -]+`) \| (?:[a-z ,]+) \| (.*) \|$", kinds, re.MULTILINE):
        for kind in re.findall(r"`([a-z-]+)`", row[0]):
            found.setdefault(kind, set()).update(re.findall(r"`([a-z_]+)`", row[1]))
    return found


def _written() -> Iterator[tuple[str, set[str]]]:
    """Each kind that a play writes, with the fields that stand in the call."""
    for path in [*_HARNESS.glob("stage/*.py"), *_HARNESS.glob("systems/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in _WRITERS:
                fields = {each.arg for each in node.keywords if each.arg}
                for kind in _kinds(node.args[:1]):
                    yield kind, fields


def _kinds(first: list[ast.expr]) -> list[str]:
    texts = [
        each
        for one in first
        for each in ([one.body, one.orelse] if isinstance(one, ast.IfExp) else [one])
    ]
    found = [each.value for each in texts if isinstance(each, ast.Constant)]
    return [each for each in found if isinstance(each, str) and re.fullmatch("[a-z-]+", each)]


def test_every_event_that_is_written_is_on_the_page_and_no_other() -> None:
    written = {kind for kind, _ in _written()} | _BY_VARIABLE
    assert written == set(_rows())


def test_every_field_that_is_written_is_in_its_row() -> None:
    rows = _rows()
    missing = [
        (kind, sorted(lacking))
        for kind, fields in _written()
        if (lacking := fields - rows.get(kind, set()) - _EVERYWHERE)
    ]
    assert not missing


def test_the_ledgers_keys_are_on_the_page() -> None:
    tree = ast.parse((_HARNESS / "ledger.py").read_text("utf-8"))
    ledger = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Ledger")
    keys = [ast.unparse(n.target) for n in ledger.body if isinstance(n, ast.AnnAssign)]
    table = prose(_PAGE).split("## The ledger")[1]
    assert [key for key in keys if f"`{key}`" not in table] == []
