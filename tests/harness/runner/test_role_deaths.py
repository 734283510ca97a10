"""When the runner takes whom it has killed for dead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from killpoint.runner import scenario_runner
from killpoint.scenario import Fault


@pytest.mark.parametrize(("successor", "dead"), [(None, False), (8, True)])
def test_a_part_whose_successor_is_there_already_is_dead_all_the_same(
    successor: int | None, dead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor: Any = SimpleNamespace(name="core-0", pid=7, alive=True)

    def kill(struck: Any) -> None:
        struck.pid = successor or struck.pid  # it has arrived before the death was seen

    events: list[dict[str, Any]] = []
    found: list[bool] = []
    monkeypatch.setitem(scenario_runner.FAULTS, "kill", SimpleNamespace(act=kill, ends=True))
    monkeypatch.setattr(scenario_runner, "look_at_maps", lambda *_: None)
    play: Any = SimpleNamespace(
        log=SimpleNamespace(write=lambda kind, **about: events.append({"kind": kind, **about})),
        _number=lambda: 1,
        _network=SimpleNamespace(aim=lambda *_: None),
        _until=lambda done, *_: found.append(done()),
    )
    scenario_runner.ScenarioRunner._act(play, actor, Fault("kill", "core-0"))
    assert found == [dead]
    assert [event["kind"] for event in events] == ["intent", "fault"]
    assert events[1]["pid"] == 7
