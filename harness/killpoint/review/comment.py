"""A review in Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from killpoint.findings.rows import NEW
from killpoint.report.job_summary import plain
from killpoint.review.outcome import Difference, Review
from killpoint.verdict import counted

_MOST = 12
"""Lines of one kind; the folder of the run has all."""
_NAMED = 3
"""Cases that a finding names."""


def markdown(found: Review) -> str:
    """Return the comment: what is new, gone, undecided, and not asked."""
    return "\n\n".join(_blocks(found)) + "\n"


def ending(found: Review) -> str:
    """Return the result in one line: ``+1 bites: deaf-reader``, and how many are fixed."""
    if not found.changes:
        return "no code that is judged differs: nothing was played"
    parts = [f"+{_words(each)}" for each in _by_impact(found.new)]
    if found.gone:
        parts.append(f"\N{MINUS SIGN}{len(found.gone)} fixed: {', '.join(_names(found.gone))}")
    if parts:
        return ", ".join(parts)
    return "nothing could be told" if not found.compared else "nothing new, nothing gone"


def headline(each: Difference) -> str:
    """A finding in one line of plain text."""
    named = f": {each.id}" if each.id != NEW else ""
    return f"{each.impact}{named}: {_line(each)}"


def _blocks(found: Review) -> Iterator[str]:
    yield f"## killpoint: {plain(ending(found))}"
    yield f"{plain(found.target)} against {plain(found.base)}; {_extent(found)}"
    if not found.changes:
        return
    if found.new:
        yield "### ✗ New"
        yield from (_told(each) for each in found.new)
    if found.gone:
        lines = [f"- **{plain(each.id)}** {plain(_line(each))}" for each in found.gone]
        yield "### ✓ Gone\n\n" + "\n".join(_few(lines))
    if found.unsure:
        lines = [f"- {plain(each)}" for each in found.unsure]
        yield "### ? Not told\n\n" + "\n".join(_few(lines))
    changed = [f"- {plain(each.words())}" for each in found.changes]
    yield _folded(f"changed code ({counted(len(changed), 'files')})", changed)
    if found.otherwise:
        what = "violated on both sides by one kind, in other words: not told apart"
        yield _folded(
            f"{what} ({len(found.otherwise)})", [f"- {plain(c)}" for c in found.otherwise]
        )
    if found.chance:
        what = "ended otherwise by chance: the rates overlap"
        yield _folded(f"{what} ({len(found.chance)})", [f"- {plain(c)}" for c in found.chance])
    if found.left_out:
        lines = [f"- {plain(each)}" for each in found.left_out]
        yield _folded(f"not asked, for want of time ({len(lines)})", lines)


def _extent(found: Review) -> str:
    before = f", {counted(found.as_before, 'violations')} as before" if found.as_before else ""
    compared = f"{counted(found.compared, 'cases')} decided on both sides{before}"
    return f"{compared}; seed {found.seed}, {found.seconds:.0f} s"


def _told(each: Difference) -> str:
    place = f"{each.place.words()}: " if each.place is not None else ""
    named = f": {plain(each.id)}" if each.id != NEW else ""
    lines = [f"- **{each.impact}{named}** {plain(_line(each))}"]
    lines.append(f"  {plain(place + each.cause)}")
    if not each.again:
        lines.append("  It was not played again on both sides.")
    if each.replay:
        lines.append(f"  `killpoint replay {each.replay}`")
    return "  \n".join(lines)


def _line(each: Difference) -> str:
    """Return the symptom and the cases, with whether other cases show it on both sides."""
    more = "; other cases show it on both sides" if each.elsewhere else ""
    if each.id == NEW:
        return f"{each.kind} in {_cases(each)}"
    return f"{each.symptom} ({each.kind} in {_cases(each)}{more})"


def _cases(each: Difference) -> str:
    left = len(each.cases) - _NAMED
    return ", ".join(each.cases[:_NAMED]) + (f" and {left} more" if left > 0 else "")


def _by_impact(some: Sequence[Difference]) -> list[list[Difference]]:
    impacts = dict.fromkeys(each.impact for each in some)
    return [[each for each in some if each.impact == impact] for impact in impacts]


def _words(some: Sequence[Difference]) -> str:
    return f"{len(some)} {some[0].impact}: {', '.join(_names(some))}"


def _names(some: Sequence[Difference]) -> list[str]:
    return [each.id if each.id != NEW else f"{each.kind} in {each.cases[0]}" for each in some]


def _few(lines: Sequence[str]) -> list[str]:
    more = [f"- … and {len(lines) - _MOST} more"] * (len(lines) > _MOST)
    return [*lines[:_MOST], *more]


def _folded(title: str, lines: Sequence[str]) -> str:
    inside = "\n".join(lines)
    return f"<details><summary>{title}</summary>\n\n{inside}\n\n</details>"
