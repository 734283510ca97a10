"""The whole matrix: each target in its turn, the replays after all, and then the page."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage
from killpoint.matrix import page, replays
from killpoint.matrix.page import Head, Judged
from killpoint.matrix.play import play
from killpoint.matrix.row import Asked, Place, Row
from killpoint.report.html import document

Tell = Callable[[str], None]
"""Called with a line as the matrix comes on."""


class Plan(msgspec.Struct):
    """What is to be played, and where everything goes."""

    targets: list[str]
    asked: Asked
    out: Path
    """Below it, a folder for each target."""
    markdown: Path
    head: Head
    confirm: bool = False
    again: bool = False
    """Whether targets are played that have a finished run."""
    jobs: int | None = None
    report: Path | None = None
    """Where the HTML report of all runs goes; by default beside the runs."""


def run(plan: Plan, tell: Tell) -> int:
    """Play what is not there yet, confirm if asked to, and write the page and the report.

    Returns:
        The exit status: 0 all is there; 3 a replay reproduced nothing; 70 a target was not judged.

    Raises:
        BadUsage: two targets would share a folder, or somebody plays in this one.
    """
    places = _places(plan.out, plan.targets)
    with _alone(plan.out):
        rows = [
            _row(place, plan, f"{number}/{len(places)} {place.target}", tell)
            for number, place in enumerate(places, start=1)
        ]
        judged = _judged(places, rows, plan.markdown.with_suffix("") / "replays")
        if plan.confirm:
            _confirm(places, judged, plan.jobs or 2 * (os.cpu_count() or 1), tell)
        absent = [row for row in rows if row.trouble]
        page.write(plan.markdown, plan.head, judged, absent)
        tell(f"table: {plan.markdown}")
        if judged:
            _report(judged, plan.report or plan.out / "matrix.html", tell)
    if absent:
        return 70
    return 3 if plan.confirm and any(each.unreproduced() for each in judged) else 0


def _row(place: Place, plan: Plan, name: str, tell: Tell) -> Row:
    kept = None if plan.again else place.kept(plan.asked)
    if kept is not None:
        tell(f"{name}: played before; {_summary(place, kept)}")
        return kept
    tell(f"{name}: playing for {plan.asked.budget:g} s, and what then still runs")
    row = play(place, plan.asked, plan.jobs)
    tell(f"{name}: {_summary(place, row)}; {row.seconds:.0f} s")
    return row


def _summary(place: Place, row: Row) -> str:
    if row.trouble:
        return f"infrastructure: {row.trouble}"
    words = [verdict.verdict for verdict in place.run(row).invariants.values()]
    return ", ".join(
        f"{words.count(word)} {word}"
        for word in ("holds", "violated", "inconclusive", "unsupported")
    )


def _places(out: Path, chosen: list[str]) -> list[Place]:
    places = [Place(out, target) for target in chosen]
    taken: dict[str, str] = {}
    for place in places:
        other = taken.setdefault(place.slug, place.target)
        if other != place.target:
            raise BadUsage(f"{other} and {place.target} would share a folder; play them apart")
    return places


def _judged(places: list[Place], rows: list[Row], into: Path) -> list[Judged]:
    judged: list[Judged] = []
    for place, row in zip(places, rows, strict=True):
        if not row.trouble:
            run = place.run(row)
            judged.append(Judged(row, run, replays.copy(run, into / place.slug)))
    return judged


def _report(judged: list[Judged], file: Path, tell: Tell) -> None:
    """One file with the plays of all cells, as far as they fit."""
    file.parent.mkdir(parents=True, exist_ok=True)
    written = document.write([each.run for each in judged], file)
    tell(f"report: {written.path}, {written.size / 1e6:.2f} MB")
    for cut in written.cuts:
        tell(f"  {cut}")


def _confirm(places: list[Place], judged: list[Judged], jobs: int, tell: Tell) -> None:
    """So many targets at a time: the most of a replay is a wait."""
    by_target = {place.target: place for place in places}
    leaving = threading.Event()

    def confirm(each: Judged) -> None:
        target = each.row.target
        place = by_target[target]

        def told(case: str, ending: str) -> None:
            tell(f"{target} {case}: {ending}")

        replays.confirm(place, each.row, each.replays, told, leaving.is_set)

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for played in [pool.submit(confirm, each) for each in judged]:
                played.result()
        except BaseException:
            leaving.set()  # the pool waits for the plays that are under way
            raise


@contextmanager
def _alone(out: Path) -> Generator[None]:
    """Hold the folder: two matrices in one would play at the same time, and disturb each other."""
    out.mkdir(parents=True, exist_ok=True)
    handle = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BadUsage(f"{out}: another matrix is being played there; wait for it") from error
    else:
        yield
    finally:
        os.close(handle)
