"""Invariants by targets as a Markdown table, for a document or a pull request."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from killpoint.findings.registry import IMPACTS, Finding, findings
from killpoint.findings.rows import rows as findings_of
from killpoint.report.run_folder import StoredRun
from killpoint.report.table import LEGEND, SIGN, columns, rows

Link = Callable[[StoredRun, str], str]
"""Function that returns where a run's verdict of an invariant can be read: a URL, or nothing."""
Doubt = Callable[[StoredRun, str], bool]
"""Function that returns whether a replay did not show a run's violation of an invariant again."""
_DOUBTED = "✗°"


def markdown(
    runs: Sequence[StoredRun], link: Link | None = None, doubt: Doubt | None = None
) -> str:
    """The table, a row for each invariant, and its legend.

    Args:
        runs: a column each; see :func:`killpoint.report.table.columns` for their order.
        link: where a cell leads; nowhere if None, or if it gives an empty text.
        doubt: which violated cells are marked.
    """
    heads = columns(runs)
    lines = [
        _line(["", "", *(_plain(head.label) for head in heads)]),
        _line(["---", "---", *(":-:" for _ in heads)]),
    ]
    lines += [
        _line([row.id, row.level, *(_cell(head.run, row.id, link, doubt) for head in heads)])
        for row in rows(runs)
    ]
    doubted = f", {_DOUBTED} violated, and a replay did not show it again" if doubt else ""
    return "\n".join([*lines, "", f"{LEGEND}{doubted}.", ""])


def found_in(runs: Sequence[StoredRun]) -> str:
    """Findings by targets: ✗ where a violation belongs to one, ✓ where its best exhibit holds.

    Empty where no run says of any violation which finding it belongs to.
    """
    heads = columns(runs)
    shown = {id(head.run): {row.id for row in findings_of(head.run.cases())} for head in heads}
    known = [each for each in findings().values() if any(each.id in ids for ids in shown.values())]
    if not known:
        return ""
    order = list(IMPACTS)
    known.sort(key=lambda each: order.index(each.impact))
    lines = [
        _line(["finding", "impact", *(_plain(head.label) for head in heads)]),
        _line(["---", "---", *(":-:" for _ in heads)]),
    ]
    for each in known:
        cells = [_shown(each, head.run, shown[id(head.run)]) for head in heads]
        lines.append(_line([f"`{each.id}`: {_plain(each.symptom)}", each.impact, *cells]))
    return "\n".join(lines) + "\n"


def _shown(entry: Finding, run: StoredRun, ids: set[str]) -> str:
    if entry.id in ids:
        return SIGN["violated"]
    outcome = {case.id: case.outcome for case in run.cases()}.get(entry.exhibit)
    return SIGN["holds"] if outcome == "held" else " "


def _cell(run: StoredRun, id: str, link: Link | None, doubt: Doubt | None) -> str:
    verdict = run.invariants.get(id)
    if verdict is None:
        return " "
    where = link(run, id) if link else ""
    sign = _DOUBTED if doubt is not None and doubt(run, id) else SIGN[verdict.verdict]
    place = f"<{where}>" if re.search(r"[\s()]", where) else where
    return f"[{sign}]({place})" if where else sign


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """A text that Markdown takes for nothing but itself, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(text.split()))
