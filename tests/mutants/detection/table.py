"""docs/detection.md: the rows of the last runs as a table, and what they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from detection import planted_score
from detection.found import Row

METHODS = {
    "case": "its own case",
    "random": "random killing",
    "sweep": "sweep of kill points",
    "simulation": "simulation",
}
_PLANTED = """\
# What finds which bug, and how fast

## Bugs of real projects, planted

Each is after a bug that a real project has fixed, planted in the reference
(`tests/mutants/planted/`: what a user notices, and when). The *plain check* is `killpoint check` of
the invariant that is judged by [generated histories](generated.md) of the bug's system, H1 to H7,
with its default seed; the time is that of the whole check, to its card. *Its cause names it* if an
engineer who reads the cause, and nothing else, would look for the right thing. The *tests* are
those of the reference's own parts, which know nothing of these bugs. Made by
`python ci/planted.py`; the figures lie in `planted.json` beside this page.

"""
_HEAD = """\
## The reference's own mutants

One for each promise at least. Made by `python ci/detection.py`; the figures lie in `detection.json`
beside this page. Each row is a broken variant of the reference (`tests/mutants/mutant_table.py`).
*Its own case* is the one that is meant to catch it. *Random killing* plays traffic and kills one of
those who take part at a random time; the *sweep* kills at lines of every operation, and strikes
them with exceptions; the *simulation* explores schedules. All three play what the mutant is one of:
a queue, a group (`g…`), a worker pool (`w…`); of the last two nothing is simulated. **Bold** is the
kind of violation found, with the work it took; *no* is what was spent in vain. The first row is the
unbroken reference: whoever finds something there is wrong. Random killing is given up after
`--seconds`, a sweep or a simulation begins no further case after `--limit` seconds. The rows were
not made at one time: what was spent in vain tells with which budget. A simulation that found
nothing in 14 188, 21 875, 25 580 or 39 814 schedules came no further than R5, which then was first;
sleepers and threads (Q8, Q13) come first now.
"""


def merged(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """The rows with what was found anew in place of what was known."""
    rows = {row.mutant: row for row in old}
    for row in new:
        known = rows.get(row.mutant)
        found = (known.found if known else {}) | row.found
        rows[row.mutant] = Row(row.mutant, row.case, found)
    return list(rows.values())


def render(rows: Sequence[Row], order: Sequence[str], planted: str) -> str:
    """The page; mutants in the order of their table, of which some may be gone.

    ``planted``: the section of planted bugs.
    """
    by_name = {row.mutant: row for row in rows}
    shown = [by_name[name] for name in order if name in by_name]
    methods = [m for m in METHODS if any(m in row.found for row in shown)]
    lines = [_PLANTED + planted, _HEAD, _line(["mutant", *(METHODS[method] for method in methods)])]
    lines.append(_line(["---"] * (1 + len(methods))))
    for row in shown:
        cells = [str(row.found[m]) if m in row.found else "" for m in methods]
        lines.append(_line([f"`{row.mutant}`", *cells]))
    lines += ["", *(_sum(method, shown) for method in methods), ""]
    return "\n".join(lines)


def write_page(page: Path, order: Sequence[str]) -> None:
    """Write the page from the figures that lie beside it."""
    scores = planted_score.load(page.with_name("planted.json"))
    planted = planted_score.section(list(scores.values()))
    page.write_text(render(load(page.with_suffix(".json")), order, planted), "utf-8")


def load(path: Path) -> list[Row]:
    """The rows of earlier runs, if there are any."""
    return msgspec.json.decode(path.read_bytes(), type=list[Row]) if path.exists() else []


def save(path: Path, rows: Sequence[Row]) -> None:
    """Keep the rows, a line each, so that a change of one is a change of a line."""
    lines = ",\n".join(msgspec.json.encode(row).decode() for row in rows)
    path.write_text(f"[\n{lines}\n]\n", "utf-8")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _sum(method: str, rows: Sequence[Row]) -> str:
    mutants = [row for row in rows if row.case and method in row.found]
    tried = [row.found[method] for row in mutants if not row.found[method].doubt]
    hits = sum(bool(found.kind) for found in tried)
    return f"- {METHODS[method]}: {hits} of {len(tried)} mutants found"
