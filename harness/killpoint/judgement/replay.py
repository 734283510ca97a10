"""Playing a scenario file again, on the target it was found on or on another."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from killpoint.cases import EVERY_CASE
from killpoint.checkers import CHECKERS
from killpoint.errors import BadUsage
from killpoint.invariants import BY_ID
from killpoint.runner.stage import Stage
from killpoint.scenario import Scenario, load
from killpoint.search.case_run import CaseRun
from killpoint.search.message_orders.case_run import explore
from killpoint.search.random_times import series, strike_at_random_times
from killpoint.search.schedule_run import play_one
from killpoint.systems.coordinator.unanswered_start_run import wake_twice
from killpoint.targets.registry import resolve
from killpoint.verdict import CaseOutcome

_EXPLORING = 60.0
Ending = Literal["reproduced", "held", "not-reached"]


class Replayed(msgspec.Struct):
    """Ending of a replay, with the outcome of each invariant that judges the scenario."""

    ending: Ending
    outcomes: list[CaseOutcome]

    def status(self) -> int:
        """Exit status of ``replay``: 1 reproduced, 0 held, 3 its point was not reached."""
        return {"reproduced": 1, "held": 0, "not-reached": 3}[self.ending]


def replay(file: Path, target: str | None = None, folder: Path | None = None) -> Replayed:
    """Play the scenario in ``file`` and judge it: once, or as often as it says.

    Args:
        target: as after ``--target``; by default the one named in the file, else the reference.
        folder: where the record is kept, if anywhere.

    Raises:
        BadUsage: the file is no scenario, or the target does not exist.
    """
    scenario = load(file)
    real = scenario.simulated is scenario.orders is scenario.wakes is None
    known = CHECKERS if real else BY_ID
    unknown = [id for id in scenario.judges if id not in known]
    if unknown:
        raise BadUsage(f"{file}: no judge for {unknown[0]!r}; expected: {', '.join(known)}")
    spec = target or scenario.target or "refengine"
    with Stage(resolve(spec)) as stage:
        return play_once(stage, scenario, spec, folder)


def play_once(
    stage: Stage,
    scenario: Scenario,
    spec: str,
    folder: Path | None = None,
    *,
    confirms: bool = False,
) -> Replayed:
    """Play a scenario on a stage that is up, judged by each of its invariants.

    A target without the capabilities of the scenario's case is not asked: `unsupported`.

    Args:
        confirms: whether a violation that rests on time is played again alone before it counts.
    """
    needs = next((case.needs for case in EVERY_CASE if case.id == scenario.case), frozenset[str]())
    lacking = needs - set(stage.zygote.loaded.capabilities)
    outcomes: list[CaseOutcome] = []
    for id in scenario.judges:
        name = scenario.case if scenario.case.startswith(f"{id}/") else f"{id}/{scenario.case}"
        case_run = CaseRun(
            name,
            stage,
            seed=scenario.seed,
            full=False,
            folder=folder,
            target=spec,
            confirms=confirms,
        )
        outcomes.append(case_run.judge(lambda case_run: play_as_told(case_run, scenario), lacking))
    words = {outcome.outcome for outcome in outcomes}
    if "violated" in words:
        return Replayed("reproduced", outcomes)
    return Replayed("held" if words == {"held"} else "not-reached", outcomes)


def play_as_told(case_run: CaseRun, scenario: Scenario) -> None:
    """Play a scenario as its file has it: explored, simulated, in a series, or so many times."""
    if scenario.orders is not None:
        explore(case_run, scenario, _EXPLORING)
    elif scenario.wakes is not None:
        wake_twice(case_run, scenario)
    elif scenario.simulated is not None:
        play_one(case_run, scenario, scenario.simulated.schedule or [])
    elif series(scenario) is not None:
        strike_at_random_times(case_run, scenario)
    else:
        for _ in range(scenario.plays):
            case_run.play(scenario)
