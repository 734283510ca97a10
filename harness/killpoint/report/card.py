"""The card: one line an invariant, legible without colour."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from killpoint.judge import Judgement
from killpoint.verdict import CaseOutcome, InvariantVerdict

_SIGN = {"holds": "✓", "violated": "✗", "inconclusive": "?", "unsupported": "-"}
_STYLE = {"holds": "green", "violated": "bold red", "inconclusive": "yellow", "unsupported": "dim"}


def print_card(judgement: Judgement, console: Console, folder: str | None = None) -> None:
    """Print the verdicts, then for each violation its cause and the command that replays it."""
    heading = f"\n{judgement.name} {judgement.version}  (seed {judgement.seed})"
    console.print(heading, style="bold", markup=False)
    for note in judgement.notes:
        console.print(f"  note: {note}", style="dim", markup=False)
    console.print(_table(judgement.verdicts))
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
    """How many invariants ended how, in one line."""
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
    if case.replay:
        console.print(f"  killpoint replay {case.replay}", markup=False, soft_wrap=True)
    if case.shrinkage:
        console.print(f"  {case.shrinkage}", markup=False, soft_wrap=True, style="dim")
    if case.shrunk:
        console.print(f"  killpoint replay {case.shrunk}", markup=False, soft_wrap=True)
