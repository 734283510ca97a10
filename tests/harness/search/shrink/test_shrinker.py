"""A violation is shrunk to what violates twice in the same way, and the result lies beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from synthetic import Tape, scene

from killpoint.ledger import Ledger
from killpoint.runner.stage import Play
from killpoint.scenario import Attach, Make, Message, Ready, Receive, Scenario, Send, Wait, load
from killpoint.search.races import REPLAYED
from killpoint.search.shrink.search import Found
from killpoint.search.shrink.shrinker import Same, shrink
from killpoint.verdict import CaseOutcome

Tells = Callable[[Scenario], Tape]


def _tape(scenario: Scenario, sent: list[int], got: list[int]) -> Tape:
    tape = Tape()
    for seq in sent:
        tape.sent(seq)
    for reader in scenario.readers():
        for seq in got:
            tape.gets(seq, reader)
    for role in scenario.roles():
        tape.exits(role)
    return tape


def _lost(scenario: Scenario) -> Tape:
    return _tape(scenario, [0, 1, 2], [0, 2])


def _sound(scenario: Scenario) -> Tape:
    return _tape(scenario, [0], [0])


def _twice(scenario: Scenario) -> Tape:
    return _tape(scenario, [0], [0, 0])


class Teller:
    """A player whose records are what a function of the scenario says."""

    def __init__(self, folder: Path, tells: Tells) -> None:
        self.folder = folder
        self.tells = tells
        self.played: list[Scenario] = []

    def play(self, scenario: Scenario) -> Play:
        self.played.append(scenario)
        history = self.tells(scenario).history()
        return Play(scenario, history, Ledger(), [], "", self.folder, 0.0)

    def forget(self, _play: Play) -> None: ...


def _large() -> Scenario:
    return scene(
        Make(),
        Attach(),
        Ready(timeout=5.0),
        Send([Message(repeat=30)], timeout=9.0),
        Receive(30, timeout=9.0),
        Wait(),
        readers=3,
    )


def _violated(place: Path) -> CaseOutcome:
    replay = place / "R3-synthetic.toml"
    return CaseOutcome("R3/synthetic", "R3", "violated", "lost", replay=str(replay))


def _long(scenario: Scenario) -> bool:
    return any(isinstance(s, Send) and s.messages[0].repeat >= 3 for s in scenario.steps)


def test_the_smallest_that_violates_alike_is_kept_beside_the_replay(tmp_path: Path) -> None:
    outcome = _violated(tmp_path)
    player = Teller(tmp_path, lambda s: _lost(s) if _long(s) else _sound(s))
    shrink(outcome, _large(), player, 60.0, target="t:x")
    assert outcome.shrunk == str(tmp_path / "R3-synthetic.shrunk.toml")
    kept = load(Path(outcome.shrunk))
    assert (kept.shape.readers, kept.target, kept.judges) == (1, "t:x", ["R3"])
    assert [s.messages for s in kept.steps if isinstance(s, Send)] == [[Message(size=0, repeat=3)]]
    assert "4 roles → 2" in outcome.shrinkage
    assert "30 messages → 3" in kept.title


def test_a_violation_of_another_kind_is_another_violation(tmp_path: Path) -> None:
    outcome = _violated(tmp_path)
    shrink(outcome, _large(), Teller(tmp_path, _twice), 60.0)
    assert outcome.shrunk is None
    assert outcome.shrinkage.startswith("no smaller (")


def test_what_is_only_another_scenario_of_that_size_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = _violated(tmp_path)
    other = msgspec.structs.replace(_large(), seed=7)
    found = Found(other, 3, finished=True)
    monkeypatch.setattr("killpoint.search.shrink.shrinker.search", lambda *_: found)
    shrink(outcome, _large(), Teller(tmp_path, _lost), 60.0)
    assert (outcome.shrunk, outcome.shrinkage) == (None, "no smaller (3 candidates tried)")
    assert list(tmp_path.glob("*.shrunk.toml")) == []


def test_what_violates_only_once_does_not_count(tmp_path: Path) -> None:
    turns: list[int] = []

    def sometimes(scenario: Scenario) -> Tape:
        turns.append(0)
        return _lost(scenario) if len(turns) % 2 else _sound(scenario)

    player = Teller(tmp_path, sometimes)
    assert not Same(player, _violated(tmp_path))(_large())
    assert len(player.played) == 2


def _by_chance(shown: set[int]) -> Tells:
    """Three roles violate in those of their plays that are named."""
    turns: list[int] = []

    def tells(scenario: Scenario) -> Tape:
        if len(scenario.roles()) != 3:
            return _sound(scenario)
        turns.append(0)
        return _lost(scenario) if len(turns) - 1 in shown else _sound(scenario)

    return tells


def test_what_was_smaller_by_luck_is_not_kept(tmp_path: Path) -> None:
    outcome = _violated(tmp_path)
    shrink(outcome, _large(), Teller(tmp_path, _by_chance({0, 1})), 60.0)
    assert outcome.shrunk is None
    assert outcome.shrinkage.startswith("no smaller that shows it again (")
    assert list(tmp_path.glob("*.shrunk.toml")) == []


def test_what_shows_it_in_some_plays_is_played_until_it_shows(tmp_path: Path) -> None:
    outcome = _violated(tmp_path)
    teller = Teller(tmp_path, _by_chance({0, 1}))
    shrink(outcome, _large(), teller, 60.0)
    last = sum(len(scenario.roles()) == 3 for scenario in teller.played) - 1
    outcome = _violated(tmp_path)
    shrink(outcome, _large(), Teller(tmp_path, _by_chance({0, 1, last})), 60.0)
    assert outcome.shrunk is not None
    assert load(Path(outcome.shrunk)).plays == REPLAYED
    assert "shown by 1 of 3 plays more" in outcome.shrinkage


def test_what_always_shows_it_is_played_once(tmp_path: Path) -> None:
    outcome = _violated(tmp_path)
    shrink(outcome, _large(), Teller(tmp_path, _lost), 60.0)
    assert outcome.shrunk is not None
    assert load(Path(outcome.shrunk)).plays == 1


def test_what_holds_is_not_played_a_second_time(tmp_path: Path) -> None:
    player = Teller(tmp_path, _sound)
    assert not Same(player, _violated(tmp_path))(_large())
    assert len(player.played) == 1


def test_no_candidate_is_begun_when_the_time_is_up(tmp_path: Path) -> None:
    outcome = _violated(tmp_path)
    clock = iter(float(second) for second in range(1000))
    player = Teller(tmp_path, _lost)
    shrink(outcome, _large(), player, 4.0, clock=lambda: next(clock))
    assert "the 4 s were up" in outcome.shrinkage
    assert len(player.played) == 2 * 3 + 3  # three candidates, and the smallest of them again


def test_nothing_is_written_where_no_replay_is_kept(tmp_path: Path) -> None:
    outcome = _violated(tmp_path)
    outcome.replay = None
    shrink(outcome, _large(), Teller(tmp_path, _lost), 60.0)
    assert outcome.shrunk is None
    assert "roles" in outcome.shrinkage


def test_without_time_nothing_is_played(tmp_path: Path) -> None:
    player = Teller(tmp_path, _lost)
    shrink(_violated(tmp_path), _large(), player, 0.0)
    assert player.played == []
