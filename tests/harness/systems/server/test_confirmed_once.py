"""A finding of a server is confirmed by one ordinary start for all the plays that show it."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from server_tape import ServerTape

from killpoint.cases import SERVER_CASES
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.runner.stage import Play
from killpoint.scenario import Scenario, ServerShape
from killpoint.search.case_run import CaseRun, Violated
from killpoint.systems.server.steps import ServerStart


class Forking:
    """A player of servers that are forked, unless they are played alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.confirmed: set[str] = set()
        self.tape = ServerTape()
        self.ledger = Ledger()
        self.alone_tape: ServerTape | None = None
        """What plays alone show, if it is another thing."""
        self.alone = 0
        self.as_users = False
        """Whether its plays start servers as users do, with nothing beside them."""

    def play(self, scenario: Scenario) -> Play:
        self._folder.mkdir(exist_ok=True)
        told = History(self.tape.events), self.ledger, list[str](), "", self._folder, 0.0
        return Play(scenario, *told, provisional=not self.as_users, alone=self.as_users)

    def without_others(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def play_alone(self, scenario: Scenario) -> Play:
        self.alone += 1
        self.tape = self.alone_tape or self.tape
        play = self.play(scenario)
        play.provisional = False
        return play

    def forget(self, play: Play) -> None: ...


def _shown(player: Forking, tape: ServerTape, case: str) -> list[int]:
    """How often a play alone showed the violation of a case, of how many; it is violated."""
    player.tape = tape
    case_run = CaseRun(case, player, seed=0, full=False, folder=None, confirms=True)
    try:
        case_run.play(Scenario(case, ["E7"], [], server=ServerShape()))
    except Violated:
        [violation] = case_run.conclude().violations
        return violation.alone
    raise AssertionError(f"{case} was not violated")


def _killed(part: str) -> ServerTape:
    return ServerTape().strikes(4, "kill", part).ends(9, code=0).tree(9)


def test_what_an_ordinary_start_has_shown_is_not_started_again_for_another_case(
    tmp_path: Path,
) -> None:
    player = Forking(tmp_path / "play")
    assert _shown(player, _killed("worker-0"), "E7/worker-killed") == [1, 1]
    assert _shown(player, _killed("worker-1"), "E7/another-worker-killed") == []
    assert player.alone == 1


def test_another_cause_is_confirmed_for_itself(tmp_path: Path) -> None:
    player = Forking(tmp_path / "play")
    assert _shown(player, _killed("worker-0"), "E7/worker-killed") == [1, 1]
    assert _shown(player, _killed("core-0"), "E7/core-killed") == [1, 1]
    told = ServerTape().at(4, "told-to-end").ends(9, code=1).tree(9)
    assert _shown(player, told, "E7/undisturbed") == [1, 1]
    assert player.alone == 3


def test_a_play_that_was_alone_and_ordinary_from_the_first_confirms_itself(tmp_path: Path) -> None:
    player = Forking(tmp_path / "play")
    player.as_users = True
    assert _shown(player, _killed("worker-0"), "E7/worker-killed") == [1, 1]
    player.as_users = False
    assert _shown(player, _killed("worker-1"), "E7/another-worker-killed") == []
    assert player.alone == 0


def test_what_a_forked_server_leaves_is_not_told_unless_its_users_does_too(tmp_path: Path) -> None:
    def left(*, alone: bool, as_users: bool) -> int:
        player = Forking(tmp_path / "play")
        player.as_users = alone
        player.tape = ServerTape().strikes(4, "kill", "worker-0").ends(9, code=1).at(9, "gone")
        player.ledger = Ledger(segments=["psm_1"])
        case_run = CaseRun("E7/a", player, seed=0, full=False, folder=None, confirms=True)
        start = ServerStart(ordinary=as_users)
        case_run.play(Scenario("E7/a", ["E7"], [start], server=ServerShape()))
        return len(case_run.leaks)

    assert left(alone=False, as_users=False) == 0
    assert left(alone=True, as_users=True) == 1
    assert left(alone=True, as_users=False) == 0  # it confirms another play


def test_what_two_ordinary_starts_do_not_show_is_no_violation(tmp_path: Path) -> None:
    player = Forking(tmp_path / "play")
    player.tape = _killed("worker-0")
    player.alone_tape = ServerTape().strikes(4, "kill", "worker-0").ends(9, code=1).tree(9)
    case_run = CaseRun("E7/a", player, seed=0, full=False, folder=None, confirms=True)
    case_run.play(Scenario("E7/a", ["E7"], [], server=ServerShape()))
    outcome = case_run.conclude()
    assert (outcome.outcome, player.alone) == ("held", 2)
    assert outcome.unconfirmed[0].endswith(
        "(of a forked server; in none of 2 as its users start it)"
    )


def test_a_play_that_races_is_told_as_a_rate_even_of_one(tmp_path: Path) -> None:
    case = next(case for case in SERVER_CASES if case.id == "E5/sigterm-in-decode")
    told: list[tuple[int, int]] = []
    for end in ("truncated", "whole"):
        player = Forking(tmp_path / "play")
        player.tape = ServerTape().asks(2, end, 5).strikes(4, "sigterm", "front").tree(9)
        case_run = CaseRun(case.id, player, seed=0, full=False, folder=None, confirms=True)
        with suppress(Violated):
            case.run(case_run)
        told += [(rate.hits, rate.trials) for rate in case_run.conclude().rates]
    assert told == [(1, 1), (0, 1)]
