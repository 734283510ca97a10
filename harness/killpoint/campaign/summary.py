"""Summary of a campaign for people: a line for each invariant, then its findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from killpoint.campaign import duration, reached
from killpoint.campaign.findings import Finding
from killpoint.campaign.history import CampaignHistory
from killpoint.campaign.journal import Ended
from killpoint.campaign.reached_report import print_reached
from killpoint.campaign.settings import Settings
from killpoint.findings.rows import named_finding
from killpoint.invariants import CATALOGUE
from killpoint.report.card import print_findings
from killpoint.verdict import counted

_WORDS = ("held", "violated", "inconclusive", "unsupported", "infrastructure")
_FAILURES = 10
"""Most failures of the harness that are listed one by one."""


def print_summary(
    settings: Settings,
    past: CampaignHistory,
    findings: Sequence[Finding],
    console: Console,
    folder: Path,
) -> None:
    """Print it, with what was reached; the status that it means is that of :func:`status`.

    ``folder``: the campaign's.
    """
    heading = f"\ncampaign on {settings.target}  (seed {settings.seed})"
    console.print(heading, style="bold", markup=False, highlight=False)
    if past.ended:
        console.print(_table(past))
    print_reached(folder, reached.load(folder), console)
    print_findings([finding.case for finding in findings], console)
    for finding in findings:
        _print_finding(finding, console)
    _print_failures(past, console)
    console.print(line(past, findings), highlight=False)


def line(past: CampaignHistory, findings: Sequence[Finding]) -> str:
    """The totals in one line."""
    judged = _judged(past)
    plays = sum(entry.plays for entry in past.ended.values())
    rest = f", {len(past.open)} to be played again" if past.open else ""
    spent, budget = duration.show(past.spent), duration.show(past.budget)
    return (
        f"{len(judged)} items, {plays} plays, {len(findings)} findings in {spent} of {budget}{rest}"
    )


def status(past: CampaignHistory, findings: Sequence[Finding]) -> int:
    """Exit status: 1 something was found; 3 nothing was judged; else 0."""
    if findings:
        return 1
    return 0 if any(entry.word in ("held", "violated") for entry in _judged(past)) else 3


def _judged(past: CampaignHistory) -> list[Ended]:
    return [entry for key, entry in past.ended.items() if not past.items[key].shrinks]


def _table(past: CampaignHistory) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("items", justify="right")
    table.add_column("ended", overflow="fold")
    table.add_column("deepest", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    for invariant in CATALOGUE:
        mine = [entry for entry in _judged(past) if _of(past, entry) == invariant.id]
        if not mine:
            continue
        counts = Counter(entry.word for entry in mine)
        words = ", ".join(f"{counts[word]} {word}" for word in _WORDS if counts[word])
        rounds = max(past.items[entry.key].round for entry in mine)
        style = "bold red" if counts["violated"] else ""
        spent = duration.show(sum(entry.seconds for entry in mine))
        table.add_row(
            invariant.id, str(len(mine)), Text(words, style=style), f"round {rounds}", spent
        )
    return table


def _of(past: CampaignHistory, entry: Ended) -> str:
    return past.items[entry.key].invariant


def _print_finding(finding: Finding, console: Console) -> None:
    times = len(finding.seen)
    head = f"\n✗ {finding.signature}  seen {counted(times, 'times')}"
    if named := named_finding(finding.case):
        head += f"  ({named})"
    console.print(Text(head, style="bold red"), soft_wrap=True)
    for text in (finding.case.cause, *(f"  {said}" for said in finding.case.evidence)):
        console.print(f"  {text}", markup=False, highlight=False, soft_wrap=True)
    if finding.replay is not None:
        console.print(
            f"  killpoint replay {finding.replay}", markup=False, highlight=False, soft_wrap=True
        )
    if finding.case.shrinkage:
        console.print(
            f"  {finding.case.shrinkage}",
            markup=False,
            highlight=False,
            style="dim",
            soft_wrap=True,
        )


def _print_failures(past: CampaignHistory, console: Console) -> None:
    failures = [entry for entry in past.ended.values() if entry.word == "infrastructure"]
    for entry in failures[:_FAILURES]:
        console.print(
            f"infrastructure: {entry.key}: {entry.cause}",
            markup=False,
            highlight=False,
            soft_wrap=True,
            style="yellow",
        )
    if len(failures) > _FAILURES:
        console.print(f"and {len(failures) - _FAILURES} more", highlight=False, style="yellow")
