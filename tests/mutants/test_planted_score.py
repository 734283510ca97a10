"""The score of planted bugs: what is kept, and what the page says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from detection.planted_score import Score, load, main, save, section
from planted import PLANTED

FIRST, SECOND, THIRD = PLANTED[:3]


def _scores() -> list[Score]:
    found = {"kind": "late", "case": "H1/generated", "seconds": 20.4, "names_it": True}
    return [
        Score(FIRST.name, "queue", **found, tested=True, test="tests/x.py::test_it[a]"),
        Score(SECOND.name, "queue", **(found | {"names_it": False}), tested=True),
        Score(THIRD.name, "queue", campaign="hang by H1/x, 90 s"),
    ]


def test_the_page_says_what_found_each_bug_and_adds_it_up() -> None:
    page = section(_scores())
    assert f"[`{FIRST.name}`]({FIRST.link}) | queue | **late** by H1/generated, 20 s | yes" in page
    assert "| yes | `test_it[a]` |" in page
    assert "| no | no |" in page
    assert "| queue | no; campaign: hang by H1/x, 90 s |  | not run |" in page
    assert "for each that it missed: 3" in page
    assert "- plain check: 2 of 3 found" in page
    assert "would look for: 1 of 2" in page
    assert "own tests: 1 of 2 noticed" in page


def test_a_test_that_hung_has_noticed_a_bug_too() -> None:
    page = section([Score(FIRST.name, "queue", tested=True, test="a test did not end")])
    assert "| a test did not end |" in page
    assert "own tests: 1 of 1 noticed" in page


def test_what_is_kept_is_in_the_order_of_the_bugs(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    assert load(file) == {}
    save(file, {score.bug: score for score in reversed(_scores())})
    assert list(load(file).values()) == _scores()


def test_asked_for_nothing_it_scores_nothing(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    assert main(tmp_path, ["--scores", str(file)]) == 0
    assert not file.exists()


def test_a_method_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(tmp_path, ["--by", "luck"])
