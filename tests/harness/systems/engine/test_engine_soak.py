"""The reference's engine under steady load, while every kind of its processes is killed, twice.

Under ``--full``: every check plays a shorter one, and ``killpoint check --full --only E3/soak``
goes on for ten minutes.
"""

from __future__ import annotations

import pytest

from killpoint.checkers import CHECKERS
from killpoint.runner.stage import Stage
from killpoint.systems.engine.cases.faults import WHOLE, soak

_KILLS = 8


@pytest.mark.full
def test_a_soak_of_a_minute_is_survived_and_told_in_figures() -> None:
    with Stage("refengine") as stage:
        play = stage.play(soak("E3/soak", 1, _KILLS, WHOLE))
        stage.forget(play)
    assert play.stalled == ""
    assert play.ledger.empty(), play.ledger.words()
    found = CHECKERS["E3"](play.scenario, play.history, play.ledger)
    assert found.violations == []
    assert found.counts["kills"] == len(found.told) == _KILLS
    assert {line.split()[0] for line in found.told} == {"coordinator", "core", "prefill", "worker"}
    print("\n".join(found.told))
