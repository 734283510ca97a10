"""Changes of findings from one release to the next one that was judged."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import msgspec

from killpoint.findings.registry import findings
from killpoint.findings.rows import NEW, Row, rows, unattributed
from killpoint.report.run_folder import StoredRun
from killpoint.report.table import columns


class Change(msgspec.Struct):
    """Findings of one release beside those of the release before it, by id."""

    before: str
    after: str
    carried: list[str]
    gone: list[str]
    """The later release was asked, and does not show them."""
    came: list[str]
    """The earlier release was asked, and did not show them."""
    untold: list[str]
    """Findings that one of the two shows, while the other one does not decide."""
    unexplained: list[str]
    """Cases of the later one with a violation that no finding explains."""

    def lines(self) -> Iterator[str]:
        """Return lines for people, one for each sort of findings that there is."""
        yield f"{self.after} after {self.before}:"
        for words, some in (
            ("carried over", self.carried),
            ("gone", self.gone),
            ("new in it", self.came),
            ("told of one of the two alone", self.untold),
            ("explained by no finding", self.unexplained),
        ):
            if some:
                yield f"{words} ({len(some)}): {', '.join(some)}"


def changes(runs: Iterable[StoredRun]) -> list[Change]:
    """Return the changes from each release to its project's next one, if both were attributed."""
    ordered = [column.run for column in columns([*runs])]
    pairs = [
        (before, after)
        for before, after in itertools.pairwise(ordered)
        if before.target.name == after.target.name
    ]
    return [_change(*pair) for pair in pairs if all(map(_is_attributed, pair))]


def _is_attributed(run: StoredRun) -> bool:
    """Return whether the run's violations were attributed."""
    return run.schema > 1 and any(v.finding for case in run.cases() for v in case.violations)


def _change(before: StoredRun, after: StoredRun) -> Change:
    was, now = _found(before), _found(after)
    lost = {id: row for id, row in was.items() if id not in now}
    won = {id: row for id, row in now.items() if id not in was}
    gone = [id for id, row in lost.items() if _is_without(after, row)]
    came = [id for id, row in won.items() if _is_without(before, row)]
    untold = [id for id in (*lost, *won) if id not in (*gone, *came)]
    no_entrys = [case for row in rows(after.cases()) if row.id == NEW for case in row.cases]
    carried = [id for id in now if id in was]
    names = before.target.label(), after.target.label()
    return Change(*names, carried, gone, came, untold, no_entrys)


def _found(run: StoredRun) -> dict[str, Row]:
    """The registry's findings that a run shows, the worst impact first."""
    return {row.id: row for row in rows(run.cases()) if row.id in findings()}


def _is_without(run: StoredRun, row: Row) -> bool:
    """Return whether the case that shows a finding best was decided, and all of it attributed."""
    best = {findings()[row.id].exhibit, row.exhibit}
    asked = [case for case in run.cases() if case.id in best]
    decided = [case for case in asked if case.outcome in ("held", "violated")]
    return bool(decided) and not unattributed(decided)
