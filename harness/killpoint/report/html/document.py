"""The file itself: one page with everything in it, that loads nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import msgspec
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from killpoint import __version__
from killpoint.report.html.cells import RunCells, clauses, run_cells
from killpoint.report.html.packing import pack
from killpoint.report.html.selection import Selection, select
from killpoint.report.run_folder import StoredRun
from killpoint.report.table import LEGEND, SIGN, Column, columns, date, rows

BUDGET = 5_000_000
"""Bytes that the file may have."""
_PATIENCE = 0.7
"""Seconds that a check spends on plays; a long one a little more."""
_SHARE = 1 / 300
"""Share of a check's own time that its report may take."""
_MARGIN = 16 * 1024
"""Bytes for what is known only when the parts are chosen: their names, and what was cut."""
_SCRIPTS = ("page.js", "cell.js", "diagram.js", "cursor.js")
_STYLES = ("page.css", "diagram.css")


class Written(msgspec.Struct, frozen=True):
    """A report that was written."""

    path: Path
    size: int
    """Bytes."""
    cuts: list[str]
    """Parts that were left out of the report, a sentence each."""


def write(
    runs: Sequence[StoredRun], path: Path, *, budget: int = BUDGET, patience: float | None = None
) -> Written:
    """Write the report of these runs into one file.

    Args:
        runs: a column each.
        budget: bytes; plays and logs are left out to stay below, and the page says so.
        patience: seconds for reading plays; without limit if None.

    Raises:
        OSError: the file cannot be written, or a record not read.
    """
    heads = columns(runs)
    cells = run_cells(heads)
    cases = [case for run in cells for case in run.cases()]
    bare = len(_text(heads, cells, Selection()).encode())
    room = budget - bare - _MARGIN - 120 * len(cases)
    limit = f"{budget / 1e6:g} MB"
    chosen = select(cases, room, limit, patience)
    text = _text(heads, cells, chosen).encode()
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        half.write_bytes(text)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
    return Written(path, len(text), chosen.cuts)


def beside(run: StoredRun) -> Written:
    """Write the report of a run that has just ended into its folder, and soon.

    Raises:
        OSError: it cannot be written.
    """
    return write([run], run.folder / "report.html", patience=max(_PATIENCE, run.seconds * _SHARE))


def _text(heads: Sequence[Column], cells: Sequence[RunCells], chosen: Selection) -> str:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.from_string(_resource("page.html"))
    parts = {f"run-{n}": pack(each) for n, each in enumerate(cells)} | chosen.parts
    return page.render(
        version=__version__,
        title=", ".join(head.label for head in heads[:3]) + (" …" if len(heads) > 3 else ""),
        heads=list(zip(heads, cells, strict=True)),
        rows=rows([head.run for head in heads]),
        sign=SIGN,
        legend=LEGEND,
        date=date,
        cuts=chosen.cuts,
        clauses=pack(clauses()),
        parts=parts,
        style=Markup("\n".join(_resource(name) for name in _STYLES)),
        script=Markup("\n".join(_resource(name) for name in _SCRIPTS)),
    )


def _resource(name: str) -> str:
    return files("killpoint.report.html").joinpath(name).read_text("utf-8")
