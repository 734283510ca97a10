"""A review: the same cases on a tree and on a revision of it, what the change touches first."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from killpoint.bisection.commits import single
from killpoint.case import Case
from killpoint.errors import BadUsage
from killpoint.findings.attribution import entries_of, without
from killpoint.judgement.judge import Judgement, Progress, judge
from killpoint.report import verdict_json
from killpoint.report.run_folder import StoredCase
from killpoint.review.change import changed, sources
from killpoint.review.order import in_order
from killpoint.review.outcome import Review
from killpoint.review.settling import Side, settle
from killpoint.scenario import Depth
from killpoint.search.case_run import Told
from killpoint.sigterm import ending_on_sigterm
from killpoint.targets.published import PROJECTS
from killpoint.targets.registry import resolve
from killpoint.targets.shapes import Device

BUDGET = 600.0
"""Seconds for both sides together."""
_HEAD, _BASE = 0.45, 0.85
"""Parts of the budget by which the last case of the tree, and of its base, is begun."""


class Settings(msgspec.Struct, frozen=True):
    """Settings with which both sides are played."""

    without: Sequence[str] = ()
    seed: int = 0
    full: bool = False
    budget: float = BUDGET
    jobs: int | None = None
    device: Device = "cpu"
    depth: Depth = "line"
    attribution: bool = True
    """True if differences are attributed to findings."""


def tree_of(target: str) -> tuple[str, str]:
    """Project and tree of ``NAME@TREE``.

    Raises:
        BadUsage: it is another kind of target.
    """
    project, separator, tree = target.partition("@")
    if not separator or project not in PROJECTS:
        forms = " or ".join(f"{each}@TREE" for each in PROJECTS)
        raise BadUsage(f"--base: target {target} has no revisions; expected {forms}")
    return project, tree


def review(
    target: str,
    revision: str,
    cases: Sequence[Case],
    folder: Path,
    settings: Settings,
    *,
    progress: Progress | None = None,
    told: Told | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Review:
    """Judge a tree and a revision of it by the same cases.

    The tree's run is written into ``folder``, that of the revision into ``folder/base``.

    Raises:
        BadUsage: the target is no tree of git, or it has no such revision.
        CannotWork: one of the two cannot be judged.
    """
    began = time.monotonic()
    head_spec = without(target, settings.without)
    with _exported(target, revision) as (place, name):
        base_spec = without(place, settings.without)
        resolved = resolve(head_spec)
        changes = changed(sources(resolve(base_spec)), sources(resolved))
        found = Review(target, name, settings.seed, changes)
        for change in changes:
            tell(f"changed: {change.words()}")
        if changes and cases:
            order = in_order(cases, changes, entries_of(target))
            ends = [began + settings.budget * part for part in (_HEAD, _BASE, 1.0)]

            def play(spec: str, chosen: Sequence[str], end: float, into: Path) -> Judgement:
                into.mkdir(exist_ok=True)
                judgement = judge(
                    spec,
                    chosen,
                    seed=settings.seed,
                    full=settings.full,
                    budget=max(0.0, end - time.monotonic()),
                    folder=into,
                    jobs=settings.jobs,
                    device=settings.device,
                    depth=settings.depth,
                    progress=progress,
                    told=told,
                    ordered=True,
                )
                verdict_json.write(judgement, into)
                return judgement

            tree = play(head_spec, [case.id for case in order], ends[0], folder)
            head = Side(head_spec, _cases(tree))
            tell(f"the same cases on {name}")
            wanted = _worth_asking(order, head)
            found.left_out = tree.left_out
            if wanted:
                before = play(base_spec, wanted, ends[1], folder / "base")
                base = Side(base_spec, _cases(before))
                jobs = settings.jobs or 2 * (os.cpu_count() or 1)
                settle(
                    found, head, base, jobs=jobs, end=ends[2], tell=tell, asks=settings.attribution
                )
                found.left_out = [*tree.left_out, *before.left_out]
    found.seconds = round(time.monotonic() - began, 1)
    return found


@contextmanager
def _exported(target: str, revision: str) -> Generator[tuple[str, str]]:
    """The revision as a target of its own, and its name; gone when it is left."""
    project, tree = tree_of(target)
    line = single(Path(tree).expanduser(), revision, project)
    with ending_on_sigterm(), line.at(0) as place:
        yield place, f"{revision} ({line.names[0]})"


def _cases(judgement: Judgement) -> dict[str, StoredCase]:
    outcomes = [case for verdict in judgement.verdicts for case in verdict.cases]
    return {each.id: msgspec.convert(each, StoredCase, from_attributes=True) for each in outcomes}


def _worth_asking(order: Sequence[Case], head: Side) -> list[str]:
    """Return the cases for the base: violated ones first, then held, and unsupported ones last.

    Those cost nothing where the base cannot be asked either.
    """
    played = [case.id for case in order if case.id in head.cases]
    turn = {"violated": 0, "inconclusive": 1, "held": 2, "unsupported": 3}
    return sorted(played, key=lambda id: turn[head.cases[id].outcome])
