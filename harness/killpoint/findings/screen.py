"""Tables of findings for a document: those that bite in a release, and those that were fixed."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from killpoint.findings.registry import SERVER, Finding, affects
from killpoint.systems.server.environments import vllm_release


def screen(project: str, release: str, known: Sequence[Finding]) -> str:
    """Two tables in Markdown: the findings of a release that bite, and those that were fixed."""
    biting = [each for each in known if each.impact == "bites" and affects(each, release)]
    gone = sorted((each for each in known if each.fixed), key=_when_fixed, reverse=True)
    lines = _table(
        ("ID", f"what a user of {project} {release} sees", "broken since", "tracker", "see it"),
        [
            (
                f"`{each.id}`",
                each.symptom,
                each.since.replace("<=", "≤ "),
                " ".join(_thread(thread) for thread in each.threads[:2]) or "none known",
                f"`{_command(each, project, release)}`",
            )
            for each in biting
        ],
    )
    if gone:
        lines += ["", "Fixed, as measured:", ""]
        lines += _table(
            ("ID", "what a user saw", "broken since", "fixed in"),
            [
                (
                    f"`{each.id}`",
                    each.symptom,
                    each.since.replace("<=", "≤ "),
                    each.fixed,
                )
                for each in gone
            ],
        )
    return "\n".join(lines) + "\n"


def _command(entry: Finding, project: str, release: str) -> str:
    own = f"serve:{vllm_release(release)}" if project == SERVER else f"{project}=={release}"
    target = own if project in entry.projects else entry.target(release)
    return f"killpoint check --target {target} --only {entry.exhibit}"


def _when_fixed(entry: Finding) -> Version:
    return Version(entry.fixed)


def _thread(thread: str) -> str:
    name, _, number = thread.partition("#")
    return f"[#{number}](https://github.com/{name}/issues/{number})"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return [_line(head), _line(("---",) * len(head)), *map(_line, rows)]


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
