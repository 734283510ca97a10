"""Invariants by targets as a Markdown table, for a document or a pull request."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from killpoint.report.columns import LEGEND, SIGN, columns, rows
from killpoint.report.stored import StoredRun

Link = Callable[[StoredRun, str], str]
"""Where a run's verdict of an invariant can be read: a URL, or nothing."""


def markdown(runs: Sequence[StoredRun], link: Link | None = None) -> str:
    """The table, a row for each invariant, and its legend.

    Args:
        runs: a column each; see :func:`killpoint.report.columns.columns` for their order.
        link: where a cell leads; nowhere if None, or if it gives an empty text.
    """
    heads = columns(runs)
    lines = [
        _line(["", "", *(_plain(head.label) for head in heads)]),
        _line(["---", "---", *(":-:" for _ in heads)]),
    ]
    lines += [
        _line([row.id, row.level, *(_cell(head.run, row.id, link) for head in heads)])
        for row in rows(runs)
    ]
    return "\n".join([*lines, "", f"{LEGEND}.", ""])


def _cell(run: StoredRun, id: str, link: Link | None) -> str:
    verdict = run.invariants.get(id)
    if verdict is None:
        return " "
    where = link(run, id) if link else ""
    sign = SIGN[verdict.verdict]
    place = f"<{where}>" if re.search(r"[\s()]", where) else where
    return f"[{sign}]({place})" if where else sign


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """A text that Markdown takes for nothing but itself, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(text.split()))
