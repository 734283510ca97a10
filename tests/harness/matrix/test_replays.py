from pathlib import Path

import pytest
from stored_rows import ASKED, CASE, stored

from killpoint.judgement.judge import judge
from killpoint.matrix import replays
from killpoint.matrix.replays import confirm, copy
from killpoint.matrix.result_row import Row

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_smaller_scenario_is_copied_where_there_is_one(tmp_path: Path):
    place, row = stored(tmp_path, shrunk="smaller")
    copies = copy(place.run(row), tmp_path / "replays")
    assert copies[CASE].read_text() == "smaller"
    place, row = stored(tmp_path, "vllm==0.25.0")
    assert copy(place.run(row), tmp_path / "replays")[CASE].read_text() == "found"


def test_a_violation_without_a_file_has_no_copy(tmp_path: Path):
    place, row = stored(tmp_path, replay=None)
    assert copy(place.run(row), tmp_path / "replays") == {}


def test_a_replay_is_played_once_and_its_ending_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(EXAMPLES)
    target, case = "broken_pipes:FlipsAByte", "R3/stream"
    judge(target, [case], folder=tmp_path, jobs=1)
    file = tmp_path / "replays" / "R3-stream.toml"
    nonsense = tmp_path / "nonsense.toml"
    nonsense.write_text("case = 3")
    row, told = Row(target, ASKED, replayed={"kept": "held"}), []
    copies = {case: file, "typo": nonsense, "kept": file}
    confirm(row, copies, lambda *words: told.append(words))
    assert row.replayed[case] == "reproduced"
    assert "nonsense.toml" in row.replayed["typo"]
    assert row.replayed["kept"] == "held"
    assert [id for id, _ in told] == [case, "typo"]


def test_of_what_is_left_nothing_is_played_once_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def nobody(_spec: str) -> None:
        pytest.fail("the target was got ready")

    monkeypatch.setattr(replays, "resolve", nobody)
    _, row = stored(tmp_path)
    copies = {"one": tmp_path / "none.toml"}
    confirm(row, copies, lambda *_: None, over=lambda: True)
    assert row.replayed == {}


def test_nothing_more_is_played_once_it_is_over(tmp_path: Path):
    row = Row("refengine", ASKED)
    told: list[str] = []
    copies = {name: tmp_path / f"{name}.toml" for name in ("one", "two")}
    for file in copies.values():
        file.write_text("case = 3")
    confirm(row, copies, lambda id, _: told.append(id), over=lambda: bool(told))
    assert told == ["one"]
    assert list(row.replayed) == ["one"]
