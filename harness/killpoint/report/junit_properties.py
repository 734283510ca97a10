"""Properties of a test case in JUnit XML beside its result, by readable names."""

from __future__ import annotations

from typing import Protocol

from killpoint.signature import signature
from killpoint.verdict import CaseWord, Evidence, Kind, case_strength, failure_class


class Told(Evidence, Protocol):
    """A case as it was played, or as it was stored."""

    id: str
    outcome: CaseWord
    kind: Kind | None
    cause: str
    replay: str | None
    shrunk: str | None
    by_harness: bool


def properties(case: Told, target: str, seed: int) -> dict[str, str]:
    """Name and value of each property that is not empty.

    Args:
        target: its name and version.
    """
    violated = case.outcome == "violated"
    facts = {
        "case": case.id,
        "target": target,
        "strength": case_strength(case),
        "seed": str(seed),
        "class": failure_class(case.outcome, case.kind, by_harness=case.by_harness) or "",
        "kind": case.kind or "",
        "signature": signature(case.id, case.kind or "", case.cause) if violated else "",
        "replay": case.replay or "",
        "shrunk": case.shrunk or "",
    }
    return {name: value for name, value in facts.items() if value}
