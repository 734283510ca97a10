"""A finding as an issue's text: what upstream would ask for, in Markdown. Nothing is sent."""

from __future__ import annotations

import re
from pathlib import Path

from killpoint.errors import BadUsage
from killpoint.findings import programs
from killpoint.findings.registry import SERVER, Finding, affects
from killpoint.invariants import BY_ID
from killpoint.matrix.select_targets import LANDMARKS
from killpoint.scenario import Scenario
from killpoint.targets.edits import DoesNotFit, Edits
from killpoint.targets.registry import resolve
from killpoint.targets.vllm.fetch.specs import find
from killpoint.targets.vllm.project import VLLM
from killpoint.targets.vllm.sources import Sources
from killpoint.targets.vllm.switch_offs import SWITCH_OFFS, diff

_TAG = "https://github.com/vllm-project/vllm/blob/v{release}/{file}#L{line}"
_SEEN = "# What was seen: "


def of_range(entry: Finding, release: str | None) -> str:
    """A release that has a finding: the one that is asked for, or the newest that is known to.

    Raises:
        BadUsage: the one that is asked for has not, or none of vLLM's has.
    """
    found = [each for each in LANDMARKS if affects(entry, each)]
    if not {"vllm", SERVER} & {*entry.projects} or not found:
        raise BadUsage(f"{entry.id} is in no release of vllm")
    if release is not None and not affects(entry, release):
        until = f" and before {entry.fixed}" if entry.fixed else ""
        raise BadUsage(f"{entry.id} is in releases from {entry.since}{until}, not in {release}")
    return release or found[-1]


def issue(entry: Finding, release: str) -> str:
    """The issue, of this release's files.

    Raises:
        BadUsage: there is no such release.
        CannotWork: its files cannot be had.
    """
    sources = find(resolve(f"vllm=={release}"), VLLM)
    sections = [
        f"# {_sentence(entry.symptom)[:-1]}",
        f"Seen in vLLM {release}, at {_place(entry, sources)}.",
        f"**Symptom.** {_sentence(entry.symptom)}",
        f"**Cause.** {_sentence(entry.trigger)} {_sentence(entry.reason)}",
        f"**Mechanism.** {_sentence(entry.mechanism)}",
        f"**Cost.** {_sentence(entry.consequence)}",
        f"**What masks it.** {_sentence(entry.masked or 'nothing that is known')}",
        f"**In a whole engine.** {_sentence(entry.reach)}" if entry.reach else "",
        f"**First bad release.** {_since(entry)}",
        f"**Known threads.** {', '.join(entry.threads) or 'None was found.'}",
        _suggested(entry, sources),
        _shown_by(entry, release),
    ]
    return "\n\n".join(each for each in sections if each) + "\n"


def issue_of_replay(file: Path, scenario: Scenario) -> str:
    """The issue of a violation that no finding is known for: what was seen, and how to see it."""
    text = file.read_text("utf-8")
    clauses = [f"- {id}: {BY_ID[id].clause}" for id in scenario.judges if id in BY_ID]
    sections = [
        f"# {scenario.case} on {scenario.target or 'the target'}",
        f"**Symptom.** {seen(text) or 'The file does not say what was seen.'}",
        "**What is expected.**\n\n" + "\n".join(clauses),
        "**Cause.** Not known: no entry of killpoint's registry of findings has this case.",
        f"**Replay.** `killpoint replay {file.name}` plays it again (status 1: it was seen again).",
        f"```toml\n{text.rstrip()}\n```",
    ]
    return "\n\n".join(sections) + "\n"


def seen(text: str) -> str:
    """Return what was seen when a replay file was kept, by its text."""
    found = re.search(rf"^{re.escape(_SEEN)}(.*(?:\n#   .*)*)", text, re.MULTILINE)
    return " ".join(found[1].replace("\n#", " ").split()) if found else ""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _since(entry: Finding) -> str:
    first = entry.since.removeprefix("<=")
    oldest = " or an older one: it is the oldest that was asked" if first != entry.since else ""
    return f"{first}{oldest}{f'; fixed in {entry.fixed}' if entry.fixed else ''}."


def _place(entry: Finding, sources: Sources) -> str:
    """File and function, linked to its line at the tag."""
    file = f"vllm/{entry.place.file}"
    named = f"`{file}`, `{entry.place.function}`"
    if SERVER in entry.projects:  # of a server's files none is kept here
        return f"[{named}]({_TAG.partition('#')[0].format(release=sources.version, file=file)})"
    try:
        edits = Edits(sources.read(sources.root / file).decode())
        line = getattr(edits.first(entry.place.function), "lineno", 1)
    except DoesNotFit:
        return f"{named} (this release has it elsewhere)"
    return f"[{named}]({_TAG.format(release=sources.version, file=file, line=line)})"


def _suggested(entry: Finding, sources: Sources) -> str:
    told = "".join(
        diff(entry.id, path, sources.read(path), path.relative_to(sources.root).as_posix())
        for path in _files(entry, sources)
    )
    if told:
        return (
            "**Suggested fix.** A sketch, kept small: with it the script below ends with status 0."
            f"\n\n```diff\n{told}```"
        )
    if SERVER in entry.projects:
        told = f"`{entry.target('RELEASE')}~{entry.id}`"
        return f"**Suggested fix.** None as a diff; {told} is the server with the bug taken out."
    if entry.fixed:
        return f"**Suggested fix.** The one of {entry.fixed}."
    return f"**Suggested fix.** None as a diff: {entry.no_switch_off or 'it fits newer releases'}."


def _files(entry: Finding, sources: Sources) -> list[Path]:
    names = SWITCH_OFFS.get(entry.id, {})
    found = [path for path in sorted(sources.root.rglob("*.py")) if path.name in names]
    known = sources.expected
    return [p for p in found if known is None or p.relative_to(sources.root).as_posix() in known]


def _shown_by(entry: Finding, release: str) -> str:
    if entry.id in programs.with_script():
        body = programs.script(entry, release, trees=False).rstrip()
        return f"**To see it.** `python {entry.id}.py`:\n\n```python\n{body}\n```"
    command = f"killpoint check --target {entry.target(release)} --only {entry.exhibit}"
    return f"**To see it.**\n\n```console\n$ {command}\n```"
