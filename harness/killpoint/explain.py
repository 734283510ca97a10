"""What an invariant or a case is about, for people."""

from __future__ import annotations

import textwrap

from killpoint.cases import CASES
from killpoint.errors import BadUsage
from killpoint.invariants import BY_ID


def explain(id: str) -> str:
    """Clause, needs, minimum strength and cases of an invariant; or a case's own account.

    Raises:
        BadUsage: there is no such invariant or case.
    """
    for case in CASES:
        if case.id == id:
            needs = ", ".join(sorted(case.needs))
            clause = BY_ID[case.invariant].clause
            return (
                f"{case.id}\n  {case.summary}\n  needs: {needs}\n  tests {case.invariant}: {clause}"
            )
    found = BY_ID.get(id)
    if found is None:
        known = ", ".join(BY_ID)
        raise BadUsage(f"no invariant or case {id!r}; expected a case's name or one of: {known}")
    least = ", ".join(f"{count} {unit}" for unit, count in found.minimum.items())
    lines = [
        f"{found.id} ({found.level})",
        textwrap.fill(found.clause, 92, initial_indent="  ", subsequent_indent="  "),
        f"  needs: {', '.join(found.needs)}",
        f"  minimum strength: {least}",
    ]
    lines.append("  cases:")
    lines += [f"    {c.id:42} {c.summary}" for c in CASES if c.invariant == id]
    return "\n".join(lines)
