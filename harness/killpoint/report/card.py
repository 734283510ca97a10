"""The card: the findings, then one line an invariant, legible without colour."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from killpoint.findings.rows import NO_REGISTRY, JudgedCase, listed, unattributed
from killpoint.judgement.judge import Judgement
from killpoint.verdict import CaseOutcome, InvariantVerdict, counted

_SIGN = {"holds": "✓", "violated": "✗", "inconclusive": "?", "unsupported": "-"}
_STYLE = {"holds": "green", "violated": "bold red", "inconclusive": "yellow", "unsupported": "dim"}


def print_card(judgement: Judgement, console: Console, folder: str | None = None) -> None:
    """Print the findings, the worst impact first, then the verdicts, then each violation.

    Invariants that the target cannot be asked share one line.
    """
    heading = f"\n{judgement.name} {judgement.version}  (seed {judgement.seed})"
    console.print(heading, style="bold", markup=False)
    for note in judgement.notes:
        console.print(f"  note: {note}", style="dim", markup=False)
    cases = [case for verdict in judgement.verdicts for case in verdict.cases]
    print_findings(cases, console)
    asked = [verdict for verdict in judgement.verdicts if verdict.verdict != "unsupported"]
    if asked:
        console.print(_table(asked))
    if line := _unasked(judgement.verdicts):
        console.print(line, style=_STYLE["unsupported"], markup=False, highlight=False)
    for verdict in judgement.verdicts:
        for case in verdict.cases:
            if case.outcome == "violated":
                _print_violation(case, console)
    if judgement.left_out:
        names = ", ".join(judgement.left_out)
        console.print(f"left out, the budget was spent: {names}", markup=False)
    console.print(summary(judgement))
    if folder:
        console.print(f"run: {folder}", markup=False)


def summary(judgement: Judgement) -> str:
    """Return the number of invariants of each verdict, in one line."""
    words = [verdict.verdict for verdict in judgement.verdicts]
    counts = ", ".join(f"{words.count(word)} {word}" for word in _SIGN if word in words)
    return f"{counts or 'nothing ran'} in {judgement.seconds:.1f} s"


def _table(verdicts: list[InvariantVerdict]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("level", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("strength", overflow="fold")
    for verdict in verdicts:
        word = Text(f"{_SIGN[verdict.verdict]} {verdict.verdict}", style=_STYLE[verdict.verdict])
        table.add_row(verdict.id, verdict.level, word, _strength(verdict))
    return table


def print_findings(cases: Sequence[JudgedCase], console: Console) -> None:
    """Print the findings that violated cases belong to, the worst impact first."""
    for row in listed(cases):
        console.print(Text(f"✗ {row.words()}", style="bold red"), soft_wrap=True)
        lines = [row.where()] + [f"killpoint show {row.id}"] * row.is_entrys
        lines += [f"killpoint replay {row.replay}"] * bool(row.replay)
        for line in lines:
            console.print(f"    {line}", markup=False, highlight=False, soft_wrap=True)
    if left := unattributed(cases):
        words = f"{counted(left, 'violations')} not attributed to a finding"
        console.print(words, style="dim", markup=False, highlight=False)


def _unasked(verdicts: Sequence[InvariantVerdict]) -> str:
    """Return what the target cannot be asked, and why, in one line."""
    why: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.verdict == "unsupported":
            why.setdefault(verdict.strength, []).append(verdict.id)
    told = [f"{', '.join(ids)} ({reason})" for reason, ids in why.items()]
    return f"{_SIGN['unsupported']} unsupported: {'; '.join(told)}" if told else ""


def _strength(verdict: InvariantVerdict) -> Text:
    text = Text(verdict.strength)
    if verdict.verdict == "inconclusive":
        doubts = [c for c in verdict.cases if c.outcome == "inconclusive"]
        for case in doubts:
            text.append(f"\n{case.id}: {case.cause}", style="yellow")
    return text


def _print_violation(case: CaseOutcome, console: Console) -> None:
    console.print(Text(f"\n✗ {case.id}: {case.kind}", style="bold red"))
    console.print(f"  {case.cause}", markup=False, highlight=False, soft_wrap=True)
    if case.beyond:
        text = f"  beyond contract: {case.beyond}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    for line in case.evidence:
        console.print(f"    {line}", markup=False, highlight=False, soft_wrap=True, style="dim")
    for violation in case.violations[:1]:
        if violation.finding is not None and violation.how != NO_REGISTRY:
            told = f"  finding: {violation.finding} ({violation.how})"
            console.print(told, markup=False, highlight=False, soft_wrap=True)
    if case.replay:
        console.print(f"  killpoint replay {case.replay}", markup=False, soft_wrap=True)
    if case.shrinkage:
        console.print(f"  {case.shrinkage}", markup=False, soft_wrap=True, style="dim")
    if case.shrunk:
        console.print(f"  killpoint replay {case.shrunk}", markup=False, soft_wrap=True)
