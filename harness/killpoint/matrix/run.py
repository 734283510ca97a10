"""The whole matrix: each target in its turn, the replays after all, and then the page."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage
from killpoint.matrix import markdown as page
from killpoint.matrix import replays
from killpoint.matrix.attribution import attribute
from killpoint.matrix.change import Change, changes
from killpoint.matrix.column import Beside, Column
from killpoint.matrix.play import play
from killpoint.matrix.result_row import CheckOptions, ColumnFolder, Row
from killpoint.report.html import document

Tell = Callable[[str], None]
"""Called with a line as the matrix comes on."""
_SETTLED = 4
"""Violations for each core that are attributed at a time: the most of a play is a wait."""
_PROJECTS = ("refengine", "vllm", "sglang")
"""Projects whose columns come first, in this order."""


class Plan(msgspec.Struct):
    """Targets to play, and the places of all results."""

    targets: list[str]
    asked: CheckOptions
    out: Path
    """Below it, a folder for each target."""
    markdown: Path
    confirm: bool = False
    again: bool = False
    """True if targets are played again that have a finished run."""
    drop: bool = False
    """True if the page keeps no column but those of the targets."""
    attribution: bool = True
    jobs: int | None = None
    renew: tuple[str, ...] = ()
    """Invariants of columns that are there whose cases are played once more."""
    report: Path | None = None
    """Path of the HTML report of the runs; by default beside them."""


def run(plan: Plan, tell: Tell) -> int:
    """Play what is not there yet, confirm if asked to, and write the page and the report.

    A column's data is kept as soon as there is anything new of it, and the page at the end.

    Returns:
        The exit status: 0 all is there; 3 a replay reproduced nothing; 70 a target was not judged.

    Raises:
        BadUsage: two targets would share a folder, another process plays in this one, or the page
            has columns that would be lost.
    """
    places = _places(plan.out, plan.targets)
    if plan.renew and plan.again:
        raise BadUsage("--renew and --again: expected one of them")
    beside = Beside(plan.markdown)
    others = _others(beside, places, plan)
    with _alone(plan.out):
        named: list[Column] = []
        absent: list[Row] = []
        for number, place in enumerate(places, start=1):
            name = f"{number}/{len(places)} {place.target}"
            found = _column(place, plan, beside, name, tell)
            if isinstance(found, Column):
                beside.keep(found)
                named.append(found)
            else:
                absent.append(found)
                others += beside.of(place.slug)
        if plan.confirm:
            _confirm(places, beside, named, plan.jobs or 2 * (os.cpu_count() or 1), tell)
        changed = changes(each.run for each in (*named, *others))
        page.write(plan.markdown, _ordered([*named, *others]), absent, changed)
        tell(f"table: {plan.markdown}")
        _say_changes(named, changed, tell)
        whole = [each for each in named if (each.run.folder / "verdict.json").is_file()]
        if whole:
            _report(whole, plan.report or plan.out / "matrix.html", tell)
    if absent:
        return 70
    return 3 if plan.confirm and any(each.unreproduced() for each in named) else 0


def _others(beside: Beside, places: Sequence[ColumnFolder], plan: Plan) -> list[Column]:
    """Columns that the page has beside those of the targets; none if they are to be dropped."""
    mine = {place.slug for place in places}
    older = [slug for slug in beside.older() if slug not in mine]
    kept = [each for each in beside.columns() if each.slug not in mine]
    if plan.drop:
        for slug in (*older, *(each.slug for each in kept)):
            beside.drop(slug)
        return []
    if older:
        raise BadUsage(
            f"{beside.page}: of the columns {', '.join(older)} there is no data in"
            f" {beside.data('').parent}: they were made before columns had any, and cannot be"
            " read back; name their targets too, or drop them (--drop), or begin another page"
        )
    return kept


def _ordered(made: list[Column]) -> list[Column]:
    """Return the columns in the order of their projects, whichever of them were made last."""
    names = [*_PROJECTS, *(each.run.target.name for each in made)]
    return sorted(made, key=lambda each: names.index(each.run.target.name))


def _column(place: ColumnFolder, plan: Plan, beside: Beside, name: str, tell: Tell) -> Column | Row:
    """The target's column; or its row alone, if it was not judged."""
    kept = None if plan.again else _kept(place, plan.asked, beside)
    if kept is None:
        tell(f"{name}: playing for {plan.asked.budget:g} s, and what then still runs")
        row = play(place, plan.asked, plan.jobs)
        if row.trouble:
            tell(f"{name}: infrastructure: {row.trouble}; {row.seconds:.0f} s")
            return row
        found = _of_run(place, row, beside)
        tell(f"{name}: {_summary(found)}; {row.seconds:.0f} s")
    else:
        found = kept
        tell(f"{name}: played before; {_summary(found)}")
        trouble = _renew(found, place, plan, beside, name, tell) if plan.renew else None
        if trouble is not None:
            return trouble
    if plan.attribution:
        beside.keep(found)
        jobs = plan.jobs or _SETTLED * (os.cpu_count() or 1)
        attribute(place.target, found.run, jobs, tell, lambda: beside.keep(found))
    found.confirmed = found.confirmed or plan.confirm or bool(found.row.replayed)
    return found


def _renew(
    column: Column, place: ColumnFolder, plan: Plan, beside: Beside, name: str, tell: Tell
) -> Row | None:
    """Play some invariants of a column once more; the row, if they could not be judged."""
    tell(f"{name}: {', '.join(plan.renew)} once more")
    part = ColumnFolder(plan.out / "renewed", place.target)
    row = play(part, msgspec.structs.replace(plan.asked, only=plan.renew), plan.jobs)
    if row.trouble:
        tell(f"{name}: infrastructure: {row.trouble}; {row.seconds:.0f} s")
        return row
    into = beside.replays(place.slug)
    fresh = part.run(row)
    column.renew(fresh, replays.copy(fresh, into, beside=True), into)
    beside.keep(column)
    tell(f"{name}: renewed; {_summary(column)}; {row.seconds:.0f} s")
    return None


def _kept(place: ColumnFolder, asked: CheckOptions, beside: Beside) -> Column | None:
    """Return the newer earlier column that was asked the same: here, or beside the page."""
    row = place.kept(asked)
    stored = beside.column(place.target, asked)
    if row is None or (stored and (stored.row.renewed or stored.made > _made(place, row))):
        return stored
    found = _of_run(place, row, beside)
    if stored is not None and stored.row.run == row.run:
        row.replayed = stored.row.replayed | row.replayed
    return found


def _made(place: ColumnFolder, row: Row) -> str:
    return Column(row, place.run(row), {}).made


def _of_run(place: ColumnFolder, row: Row, beside: Beside) -> Column:
    run = place.run(row)
    return Column(row, run, replays.copy(run, beside.replays(place.slug)))


def _summary(column: Column) -> str:
    words = [verdict.verdict for verdict in column.run.invariants.values()]
    return ", ".join(
        f"{words.count(word)} {word}"
        for word in ("holds", "violated", "inconclusive", "unsupported")
    )


def _places(out: Path, chosen: list[str]) -> list[ColumnFolder]:
    places = [ColumnFolder(out, target) for target in chosen]
    taken: dict[str, str] = {}
    for place in places:
        other = taken.setdefault(place.slug, place.target)
        if other != place.target:
            raise BadUsage(f"{other} and {place.target} would share a folder; play them apart")
    return places


def _say_changes(named: Sequence[Column], changed: Sequence[Change], tell: Tell) -> None:
    """Print the changes of findings with the releases that were asked for."""
    mine = {each.run.target.label() for each in named}
    for change in changed:
        if change.after in mine:
            first, *rest = change.lines()
            tell(first)
            for line in rest:
                tell(f"  {line}")


def _report(made: Sequence[Column], file: Path, tell: Tell) -> None:
    """Write one report with the plays of all cells, as far as they fit."""
    file.parent.mkdir(parents=True, exist_ok=True)
    written = document.write([each.run for each in made], file)
    tell(f"report: {written.path}, {written.size / 1e6:.2f} MB")
    for cut in written.cuts:
        tell(f"  {cut}")


def _confirm(
    places: Sequence[ColumnFolder], beside: Beside, named: Sequence[Column], jobs: int, tell: Tell
) -> None:
    """Replay so many targets at a time: most of a replay is a wait."""
    by_target = {place.target: place for place in places}
    leaving = threading.Event()

    def confirm(each: Column) -> None:
        place = by_target[each.row.target]

        def told(case: str, ending: str) -> None:
            if place.folder.is_dir():
                place.keep(each.row)
            beside.keep(each)
            tell(f"{each.row.target} {case}: {ending}")

        replays.confirm(each.row, each.replays, told, leaving.is_set)

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for played in [pool.submit(confirm, each) for each in named]:
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
