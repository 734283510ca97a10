"""A scenario file is one of the plays of its case: who has judged the case has played the file."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from reading import Reading

from killpoint.cases import select
from killpoint.scenario import load
from killpoint.search.case_run import CaseRun

FOLDER = Path(__file__).parents[3] / "scenarios"
FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.toml"))


@pytest.mark.parametrize("file", FILES)
def test_a_scenario_file_is_a_play_of_its_case(file: str) -> None:
    scenario = load(FOLDER / file)
    (case,) = select([scenario.case])
    player = Reading()
    case.run(CaseRun(case.id, player, seed=scenario.seed, full=False, folder=None))
    assert msgspec.structs.replace(scenario, title="") in player.played


def test_no_file_was_overlooked() -> None:
    assert len(FILES) >= 48
