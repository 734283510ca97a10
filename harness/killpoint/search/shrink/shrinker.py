"""Shrinker: from a violation to the smallest scenario that shows it, playing candidates twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage
from killpoint.scenario import Scenario, replay_text
from killpoint.search.case_run import CaseRun
from killpoint.search.player import Player
from killpoint.search.races import REPLAYED
from killpoint.search.shrink.search import search
from killpoint.search.shrink.size import size_of
from killpoint.systems.registry import system_of
from killpoint.verdict import CaseOutcome

_PLAYS = 2
"""A candidate counts only if each of so many plays violates in the same way."""
_AGAIN = 3
"""Plays of the smallest one found. Of many candidates that violate by chance, some do so twice."""


class Same:
    """Test of whether a scenario violates the same invariant in the same way at each play."""

    def __init__(self, player: Player, outcome: CaseOutcome, target: str = "") -> None:
        """``outcome``: the violation to look for."""
        self._player = player
        self._outcome = outcome
        self._target = target
        self.lately = 0.0
        """Seconds that the last play took which violated: what the next one may take."""

    def __call__(self, scenario: Scenario) -> bool:
        """Play it; the first play that does not violate is the last."""
        return all(self.once(scenario) for _ in range(_PLAYS))

    def once(self, scenario: Scenario) -> bool:
        """Play it once."""
        began = time.monotonic()
        case_run = CaseRun(
            self._outcome.id,
            self._player,
            seed=scenario.seed,
            full=False,
            folder=None,
            target=self._target,
        )
        try:
            came = case_run.judge(lambda case_run: case_run.play(scenario) and None)
        except BadUsage:  # an adapter that cannot be asked this
            return False
        same = came.outcome == "violated" and came.kind == self._outcome.kind
        self.lately = time.monotonic() - began if same else self.lately
        return same


def shrink(
    outcome: CaseOutcome,
    scenario: Scenario,
    player: Player,
    seconds: float,
    *,
    target: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Look for a smaller scenario with the same violation, and note in ``outcome`` what came out.

    The result, if it is smaller, lies beside the replay as ``NAME.shrunk.toml``. It is played a few
    times more: what never violates again was smaller by luck, and is not kept; what does not
    violate each time is kept with the number of plays that a race is given.

    Args:
        outcome: a violation, with its replay.
        seconds: no candidate is begun that could not end within them.
    """
    end = clock() + seconds
    kept_whole = system_of(scenario).kept_whole
    if kept_whole:
        outcome.shrinkage = kept_whole
        return
    same = Same(player, outcome, target)
    found = search(scenario, same, lambda: clock() + (1 + _AGAIN) * same.lately < end)
    compared = size_of(scenario).compared(size_of(found.scenario))
    how = f"{found.tried} candidates tried" + (
        "" if found.finished else f", the {seconds:g} s were up"
    )
    outcome.shrinkage = f"{compared or 'no smaller'} ({how})"
    if not compared or outcome.replay is None:  # it would be the replay once more
        return
    shown = sum(same.once(found.scenario) for _ in range(_AGAIN))
    if not shown:
        outcome.shrinkage = f"no smaller that shows it again ({how})"
        return
    path = Path(outcome.replay).with_suffix(".shrunk.toml")
    title = f"shrunk: {compared}"
    kept = msgspec.structs.replace(found.scenario, target=target, title=title)
    if shown < _AGAIN:
        kept = msgspec.structs.replace(kept, plays=max(kept.plays, REPLAYED))
        outcome.shrinkage = f"{compared} ({how}; shown by {shown} of {_AGAIN} plays more)"
    path.write_text(replay_text(kept, cause=outcome.cause), "utf-8")
    outcome.shrunk = str(path)
