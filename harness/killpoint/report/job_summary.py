"""A run in Markdown, as the summary of a job: the verdicts, then each violation with its replay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from killpoint.findings.rows import Row, listed, named_finding
from killpoint.report.gate import Gate
from killpoint.report.run_folder import StoredCase, StoredRun

_SIGN = {"holds": "✓", "violated": "✗", "inconclusive": "?", "unsupported": "-"}
_MOST = 900_000
"""Bytes: GitHub takes 1 MiB for a step, and nothing of a longer one."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$@])")


def markdown(run: StoredRun, judged: Gate) -> str:
    """The summary's text, cut at a block's end where GitHub would refuse it."""
    blocks = list(_blocks(run, judged))
    kept: list[str] = []
    room = _MOST
    for number, block in enumerate(blocks):
        room -= len(block.encode()) + 2
        if room < 0:
            kept.append(f"… {len(blocks) - number} more are in the run's folder")
            break
        kept.append(block)
    return "\n\n".join(kept) + "\n"


def failure(target: str, words: str) -> str:
    """The summary of a run that could not be made."""
    heading = f"## killpoint: {plain(target)}"
    return f"{heading}\n\nkillpoint could not do its work:\n\n{_fenced([words])}\n"


def _blocks(run: StoredRun, judged: Gate) -> Iterator[str]:
    yield f"## killpoint: {plain(run.target.label())}"
    yield _ending(run, judged)
    if rows := listed(run.cases()):
        yield _findings(rows)
    yield _table(run)
    for case in judged.new:
        yield from _told(case, "violation")
    for entry in judged.gone:
        yield f"### ✗ {plain(entry.name)}: known failure no longer fails"
        yield f"{plain(entry.words())}; remove it"
    for case in judged.doubtful:
        yield from _told(case, "doubt")
    if judged.known:
        entries = [f"- {plain(known.words())}" for _, known in judged.known]
        yield _folded(f"known failures ({len(entries)})", entries)
    if run.left_out:
        lines = [f"- {plain(id)}" for id in run.left_out]
        yield _folded(f"left out, the budget was spent ({len(lines)})", lines)
    strengths = [f"- **{plain(id)}** {plain(v.strength)}" for id, v in run.invariants.items()]
    yield _folded("strength", strengths)
    if run.notes:
        yield _folded("notes", [f"- {plain(note)}" for note in run.notes])


def _ending(run: StoredRun, judged: Gate) -> str:
    counts = {
        "new violations": len(judged.new),
        "known failures": len(judged.known),
        "known failures that are gone": len(judged.gone),
        "inconclusive cases": len(judged.doubtful),
    }
    told = [f"{what}: {count}" for what, count in counts.items() if count]
    facts = f"seed {run.seed}, {run.device}, {run.seconds:.0f} s"
    return f"{', '.join(told) or 'nothing violated'} ({facts})"


def _findings(rows: Sequence[Row]) -> str:
    """The findings, those that bite first."""
    lines = ["| impact | finding | what goes wrong | where | cases |", "|---|---|---|---|--:|"]
    for row in rows:
        place = row.place.words() if row.place is not None else ""
        cells = [f"**{row.impact}**", plain(row.id), plain(row.symptom), plain(place)]
        lines.append("| " + " | ".join([*cells, str(len(row.cases))]) + " |")
    return "\n".join(lines)


def _table(run: StoredRun) -> str:
    lines = ["| | invariant | level | verdict | held | of |", "|---|---|---|---|--:|--:|"]
    for id, verdict in run.invariants.items():
        held = sum(case.outcome == "held" for case in verdict.cases)
        word = f"**{verdict.verdict}**" if verdict.verdict == "violated" else verdict.verdict
        cells = [_SIGN[verdict.verdict], plain(id), verdict.level, word, str(held)]
        lines.append("| " + " | ".join([*cells, str(len(verdict.cases))]) + " |")
    return "\n".join(lines)


def _told(case: StoredCase, what: str) -> Iterator[str]:
    sign = "✗" if what == "violation" else "?"
    whose = f" ({plain(named)})" if (named := named_finding(case)) else ""
    yield f"### {sign} {plain(case.id)}: {case.failure_class}{whose}"
    yield _fenced([case.cause, *(f"  {line}" for line in case.evidence)])
    commands = [f"killpoint replay {file}" for file in (case.replay, case.shrunk) if file]
    if commands:
        yield _fenced(commands)


def _folded(title: str, lines: Sequence[str]) -> str:
    inside = "\n".join(lines)
    return f"<details><summary>{title}</summary>\n\n{inside}\n\n</details>"


def _fenced(lines: Sequence[str]) -> str:
    """Fence text as it is, whatever backticks it quotes."""
    text = "\n".join(lines)
    ticks = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}text\n{text}\n{fence}"


def plain(text: str) -> str:
    """Text that Markdown is to leave alone, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
