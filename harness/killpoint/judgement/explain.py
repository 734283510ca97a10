"""Explanation of an invariant or a case, for people."""

from __future__ import annotations

import textwrap

from killpoint.cases import EVERY_CASE
from killpoint.errors import BadUsage
from killpoint.invariant import Invariant
from killpoint.invariants import BY_ID
from killpoint.systems.pool.kill_matrix import JUDGED_BY, MATRIX, MEANING, Ending
from killpoint.verdict import least


def explain(id: str) -> str:
    """Clause, needs, minimum strength and cases of an invariant; or a case's own account.

    Raises:
        BadUsage: there is no such invariant or case.
    """
    for case in EVERY_CASE:
        if case.id == id:
            needs = ", ".join(sorted(case.needs))
            tested = BY_ID[case.invariant]
            lines = [case.id, f"  {case.summary}", f"  needs: {needs}"]
            lines.append(f"  tests {tested.id} ({tested.level}): {tested.clause}")
            return "\n".join([*lines, *_bound(tested)])
    found = BY_ID.get(id)
    if found is None:
        known = ", ".join(BY_ID)
        raise BadUsage(f"no invariant or case {id!r}; expected a case's name or one of: {known}")
    lines = [
        f"{found.id} ({found.level})",
        textwrap.fill(
            found.clause,
            92,
            initial_indent="  ",
            subsequent_indent="  ",
            break_on_hyphens=False,
        ),
        *_bound(found),
        f"  needs: {', '.join(found.needs)}" + (f", or {found.instead}" if found.instead else ""),
        f"  minimum strength: {least(found)}",
    ]
    lines.append("  cases:")
    mine = [case for case in EVERY_CASE if case.invariant == id]
    lines += [f"    {case.id:42} {case.summary}" for case in mine if not case.full]
    if more := sum(case.full for case in mine):
        lines.append(f"    and {more} under --full alone: killpoint list cases")
    return "\n".join([*lines, *_cells(id)])


def _bound(found: Invariant) -> list[str]:
    """Return why the bound is as it is, and what it means to be later."""
    if not found.bound:
        return []
    words = f"bound (SHOULD: what never comes breaks the {found.level}): {found.bound}"
    return textwrap.wrap(
        words, 92, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )


def _cells(id: str) -> list[str]:
    """The part of the kill matrix that an invariant judges: each ending, and what leads to it."""
    lines: list[str] = []
    for ending, judge in JUDGED_BY.items():
        if judge == id:
            said = f"{ending}: {MEANING[ending]}"
            lines.append(textwrap.fill(said, 92, initial_indent="    ", subsequent_indent="    "))
            lines += [f"      {row}" for row in _rows(ending)]
    return ["  cells of the kill matrix, by how they end:", *lines] if lines else []


def _rows(ending: Ending) -> list[str]:
    """``worker, computing: kill, exit``, for each victim and phase."""
    harms: dict[tuple[str, str], list[str]] = {}
    for cell, expected in MATRIX.items():
        if expected.ending == ending:
            harms.setdefault((cell.victim, cell.phase), []).append(cell.harm)
    return [f"{victim}, {phase}: {', '.join(each)}" for (victim, phase), each in harms.items()]
