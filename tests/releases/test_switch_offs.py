"""Switch-offs on real releases: each fits, and ends what its finding's exhibit shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from release_files import release_files

from killpoint.cases import select
from killpoint.findings.attribution import without
from killpoint.findings.issue import of_range
from killpoint.findings.registry import SERVER, finding, findings
from killpoint.points.tracing import PASSED_OVER
from killpoint.runner.stage import Stage
from killpoint.search.case_run import CaseRun
from killpoint.targets.edits import added
from killpoint.targets.registry import resolve, switch_offs_of
from killpoint.targets.vllm.sources import COORDINATOR, Sources
from killpoint.targets.vllm.switch_offs import SWITCH_OFFS, applied, diff, fits
from killpoint.verdict import CaseOutcome

pytestmark = pytest.mark.network

NEWEST = "0.33.0"
_AT_ONCE = ("confused-senders",)
"""Whose exhibit takes two seconds."""
_ANOTHERS = {
    "dead-output-thread": "wrong-data",
    "deaf-start": "no-error",
    "deaf-writer": "wrong-data",
    "early-departure": "hang",
    "late-barrier": "no-error",
    "undecoded-frame": "lost",
    "unsaid-exit": "wrong-data",
}
"""The kind of another violation that is left when this one is gone."""
_BESIDE = {
    "late-death-watch": "deaf-start",  # of a worker that has loaded before the parent is killed
    "unwatched-connection": "unwatched-writer",  # of a local reader beside the remote one
}
"""What another finding may have a part in too; it is off in both plays."""
_SELDOM = {"starved-publication"}
"""A machine that sends slowly does not starve it."""


def _texts(sources: Sources) -> list[tuple[Path, bytes]]:
    files = [*sources.modules().values(), sources.root / COORDINATOR]
    return [(path, sources.read(path)) for path in files]


@pytest.mark.parametrize("id", SWITCH_OFFS)
def test_a_switch_off_fits_the_newest_release_that_has_its_bug_and_is_a_diff(id: str) -> None:
    texts = _texts(release_files(of_range(finding(id), None)))
    touched = [(path, text) for path, text in texts if fits(id, path, text)]
    assert touched
    for path, text in touched:
        compile(applied((id,), path, text), path.name, "exec", dont_inherit=True)
        lines = diff(id, path, text, path.name).splitlines()
        added = [line for line in lines if line.startswith("+") and not line.startswith("+++")]
        assert 0 < len(added) <= 40


@pytest.mark.full
def test_none_takes_anothers_place() -> None:
    for path, text in _texts(release_files(NEWEST)):
        whole = applied([*SWITCH_OFFS], path, text)
        compile(whole, path.name, "exec", dont_inherit=True)
        mine = [id for id, files in SWITCH_OFFS.items() if path.name in files]
        for id in mine:
            others = applied([each for each in mine if each != id], path, text)
            assert (others != whole) == fits(id, path, text), id


@pytest.mark.full
def test_what_changes_nothing_in_a_target_is_not_among_its_switch_offs() -> None:
    spec = release_files(NEWEST).spec
    assert "late-replies" in switch_offs_of(spec)
    assert "late-replies" not in switch_offs_of(without(spec, ["late-replies"]))
    assert "poisoned-slot" not in switch_offs_of(spec)
    assert "poisoned-slot" in switch_offs_of(release_files("0.26.0").spec)


def test_lines_that_a_switch_off_adds_are_no_points() -> None:
    sources = replace(release_files(NEWEST), off=("late-payload",))
    path = sources.modules()[sources.module()]
    PASSED_OVER.pop(str(path), None)
    sources.compiled(path)
    mine = added(sources.read(path).decode(), sources.code(path).decode())
    assert PASSED_OVER.pop(str(path)) == mine != frozenset()


def _outcome(spec: str, case: str) -> CaseOutcome:
    with Stage(resolve(spec)) as stage:
        case_run = CaseRun(case, stage, seed=0, full=False, folder=None)
        return case_run.judge(select([case])[0].run)


def _long(id: str) -> object:
    return id if id in _AT_ONCE else pytest.param(id, marks=pytest.mark.full)


@pytest.mark.parametrize("id", [_long(id) for id in SWITCH_OFFS if id not in _SELDOM])
def test_the_exhibit_shows_the_finding_and_not_without_its_bug(id: str) -> None:
    entry = finding(id)
    spec = release_files(of_range(entry, None)).spec
    if id in _BESIDE:
        spec = without(spec, [_BESIDE[id]])
    shown = _outcome(spec, entry.exhibit)
    assert shown.outcome == "violated", shown.cause
    gone = _outcome(without(spec, [id]), entry.exhibit)
    if id in _ANOTHERS:
        assert gone.kind == _ANOTHERS[id] != shown.kind, gone.cause
    else:
        assert gone.outcome == "held", gone.cause


@pytest.mark.full
@pytest.mark.parametrize(
    ("id", "case"),
    [
        ("deaf-writer", "Q7/reader-dies-idle"),
        ("deaf-start", "Q10/nobody-comes"),
        ("deaf-start", "Q10/remote-reader-dies-before-attaching"),
        ("deaf-reader", "Q9/cancel-remote-receive"),
    ],
)
def test_other_waits_that_are_deaf_end_without_the_bug(id: str, case: str) -> None:
    spec = release_files(NEWEST).spec
    assert _outcome(spec, case).kind == "hang"
    assert _outcome(without(spec, [id]), case).outcome == "held"


_NOT_SWITCHED = [e.id for e in findings().values() if e.no_switch_off and SERVER not in e.projects]


@pytest.mark.full
@pytest.mark.parametrize("id", _NOT_SWITCHED)
def test_the_exhibit_of_who_has_no_switch_off_shows_it_in_its_range(id: str) -> None:
    entry = finding(id)
    release = entry.since.removeprefix("<=") if entry.fixed else NEWEST
    shown = _outcome(release_files(release).spec, entry.exhibit)
    assert shown.outcome == "violated", shown.cause
    if entry.fixed:
        assert _outcome(release_files(entry.fixed).spec, entry.exhibit).outcome == "held"
