"""The replay of each violation: copied to where it stays, and played once more."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from killpoint.errors import BadUsage, KillpointError
from killpoint.judgement.replay import play_once
from killpoint.matrix.result_row import Row
from killpoint.report.run_folder import StoredCase, StoredRun
from killpoint.runner.stage import Stage
from killpoint.scenario import load
from killpoint.targets.registry import resolve

REPRODUCED = "reproduced"
"""Value of :attr:`Row.replayed` for a violation that came again."""


def copy(run: StoredRun, into: Path, *, beside: bool = False) -> dict[str, Path]:
    """Copy the replay of each violated case into a folder of their own; return them by case.

    The smaller scenario goes before the one that was found first, where there is one. The replay of
    each violation that has no finding yet goes there, too: its attribution plays it.
    ``beside``: what lies there stays.
    """
    if not beside:
        shutil.rmtree(into, ignore_errors=True)
    copies: dict[str, Path] = {}
    for case in run.cases():
        kept = _file(case, run.folder) if case.outcome == "violated" else None
        if kept is not None:
            copies[case.id] = _copied(kept, into)
        unsettled = [v.replay for v in case.violations if v.finding is None]
        for file in _there(unsettled, run.folder):
            _copied(file, into)
    return copies


def _copied(file: Path, into: Path) -> Path:
    into.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copyfile(file, into / file.name))


def confirm(
    row: Row,
    copies: dict[str, Path],
    tell: Callable[[str, str], None],
    over: Callable[[], bool] = lambda: False,
) -> None:
    """Play each copy once, one after the other, and note in the row how it ended.

    An earlier replay's ending stays as it was; a replay that fails to start now may be tried later.
    ``tell``: called with each case and its ending. ``over``: whether no more are to be played.
    """
    left = {id: file for id, file in copies.items() if id not in row.replayed}
    if not left or over():
        return
    try:
        with Stage(resolve(row.target)) as stage:
            for id, file in left.items():
                if over():
                    return
                row.replayed[id] = _ending(stage, file, row.target)
                tell(id, row.replayed[id])
    except (KillpointError, OSError) as error:
        tell(f"{len(left.keys() - row.replayed.keys())} replays", f"not played: {error}")


def _ending(stage: Stage, file: Path, target: str) -> str:
    try:
        replayed = play_once(stage, load(file), target)
    except BadUsage as error:
        return " ".join(str(error).split())
    if replayed.ending == "not-reached":
        doubts = [outcome.cause for outcome in replayed.outcomes if outcome.cause]
        return ": ".join(["not reached", *doubts[:1]])
    return replayed.ending


def _file(case: StoredCase, folder: Path) -> Path | None:
    """Return the replay in the run's folder, wherever the run was begun or has been moved to."""
    return next(_there((case.shrunk, case.replay), folder), None)


def _there(names: Iterable[str | None], folder: Path) -> Iterator[Path]:
    named = (folder / "replays" / Path(name).name for name in names if name)
    return (file for file in named if file.is_file())
