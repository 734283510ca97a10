"""Which finding each violation of a row belongs to: asked after its run, kept as it is settled."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from killpoint.errors import KillpointError
from killpoint.findings.attribution import Attribution
from killpoint.findings.rows import unattributed
from killpoint.report import verdict_json
from killpoint.report.stored import StoredRun, anchored
from killpoint.verdict import CaseViolation, counted


class _Left(msgspec.Struct):
    """What of a case nobody has said the finding of."""

    id: str
    violations: list[CaseViolation]


def attribute(target: str, run: StoredRun, jobs: int, tell: Callable[[str], None]) -> None:
    """Settle what is not settled yet; ``verdict.json`` is written anew after each violation.

    Interrupted, it goes on with what is left when it is called again.
    """
    left = unattributed(run.cases())
    if not left:
        return
    anchored(run)
    lock = threading.Lock()

    def settled(line: str) -> None:
        with lock:
            verdict_json.keep_findings(run)
        tell(f"{target} {line}")

    asked = [_Left(c.id, [v for v in c.violations if v.finding is None]) for c in run.cases()]
    try:
        with Attribution(target, settled) as attribution:
            if attribution.plays:
                tell(f"{target}: {counted(left, 'violations')}: which finding each belongs to")
            attribution.of_cases(asked, jobs)
    except (KillpointError, OSError) as error:
        tell(f"{target}: not attributed: {error}")
    verdict_json.keep_findings(run)
