"""Attribution of a row's violations to findings, after its run; each is stored as it is settled."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from killpoint.errors import KillpointError
from killpoint.findings.attribution import Attribution
from killpoint.findings.rows import unattributed
from killpoint.report import verdict_json
from killpoint.report.run_folder import StoredRun, anchored
from killpoint.verdict import CaseViolation, counted


class _Left(msgspec.Struct):
    """Violations of a case that are not attributed yet."""

    id: str
    violations: list[CaseViolation]


def attribute(
    target: str,
    run: StoredRun,
    jobs: int,
    tell: Callable[[str], None],
    keep: Callable[[], None] = lambda: None,
) -> None:
    """Settle what is not settled yet; ``verdict.json``, if there, is written anew after each.

    Interrupted, it goes on with what is left when it is called again.

    Args:
        keep: called then, too, and at the end.
    """
    left = unattributed(run.cases())
    if not left:
        return
    anchored(run)
    lock = threading.Lock()

    def kept() -> None:
        with lock:
            if (run.folder / "verdict.json").is_file():
                verdict_json.keep_findings(run)
            keep()

    def settled(line: str) -> None:
        kept()
        tell(f"{target} {line}")

    asked = [_Left(c.id, [v for v in c.violations if v.finding is None]) for c in run.cases()]
    try:
        with Attribution(target, settled) as attribution:
            if attribution.plays:
                tell(f"{target}: {counted(left, 'violations')}: which finding each belongs to")
            attribution.of_cases(asked, jobs)
    except (KillpointError, OSError) as error:
        tell(f"{target}: not attributed: {error}")
    kept()
