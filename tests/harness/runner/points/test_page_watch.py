"""A role is held at the page meant, what it had stored is seen, and then it dies or goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from killpoint.checkers import CHECKERS
from killpoint.history.event import Event
from killpoint.points.pages import Protected, Refused
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import Count, Fault, FaultName, Point
from killpoint.search.case_run import CaseRun
from killpoint.systems.queue.cases.pages import around_copy

_DATA = 256
"""Pages of the message whose copy is held."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    try:
        Protected().end()
    except Refused as refused:
        pytest.skip(str(refused))
    with Stage("refengine") as made:
        yield made


def _held(stage: Stage, fault: FaultName, page: int) -> tuple[Play, Event]:
    step = Fault(fault, "writer", Point("send", page=page))
    play = stage.play(around_copy("R2/x", fault, step))
    stage.forget(play)
    reached = play.history.first("reached")
    assert reached is not None, play.unreached
    return play, reached


def _kinds(play: Play) -> list[str]:
    finding = CHECKERS["R2"](play.scenario, play.history, play.ledger)
    return [violation.kind for violation in finding.violations]


def test_the_pages_of_a_copy_are_counted(stage: Stage) -> None:
    play = stage.play(around_copy("R2/x", "stop", Count("writer", Point("send"), "pages")))
    stage.forget(play)
    (counted,) = play.history.of("pages")
    assert counted.text("target") == "writer"
    assert _DATA < counted.number("count") < _DATA + 8
    assert _kinds(play) == []


@pytest.mark.parametrize("fault", ["kill", "stop"])
@pytest.mark.parametrize("page", [0, 1, 77, _DATA])
def test_a_copy_is_held_with_so_many_pages_stored_and_none_beyond(
    stage: Stage, fault: FaultName, page: int
) -> None:
    play, reached = _held(stage, fault, page)
    assert reached.text("where").startswith(f"page {page}: ")
    assert (reached.number("stored"), reached.number("early")) == (page, 0)
    assert reached.number("changed") >= page - 1  # flags may be stored as they were
    assert _kinds(play) == []
    assert play.ledger.empty() or fault == "kill"


def test_a_writer_that_was_held_and_goes_on_has_sent_everything(stage: Stage) -> None:
    play, _ = _held(stage, "stop", 100)
    got = [e for e in play.history.of("got") if e.text("outcome") == "ok"]
    assert len(got) == 2 * (4 + 1 + 2)
    assert CHECKERS["R3"](play.scenario, play.history, play.ledger).violations == []


def test_a_page_that_is_never_stored_to_is_told(stage: Stage) -> None:
    step = Fault("kill", "writer", Point("send", page=99_999))
    play = stage.play(around_copy("R2/x", "kill", step))
    stage.forget(play)
    assert play.unreached == ["kill of writer at page 99999 of send"]


_FORBIDDEN = """
from killpoint.points import pages
from killpoint.targets.refengine.adapter import RefengineTarget

class Target(RefengineTarget):
    def load(self):
        pages._SYSCALL = {}
"""


def test_a_machine_that_permits_none_says_nothing_of_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "no_pages.py").write_text(_FORBIDDEN, "utf-8")

    def struck(case_run: CaseRun) -> Any:
        return case_run.play(
            around_copy("R2/x", "stop", Fault("stop", "writer", Point("send", page=3)))
        )

    with Stage("no_pages:Target") as own:
        case_run = CaseRun("R2/x", own, seed=0, full=False, folder=None)
        outcome = case_run.judge(struck)
    assert (outcome.outcome, outcome.by_machine) == ("unsupported", True)
    assert "userfaultfd" in outcome.cause
