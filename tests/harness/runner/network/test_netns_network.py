"""Readers on hosts of their own: a cut is silent below TCP, and known to have struck."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from killpoint.checkers import CHECKERS
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import (
    Attach,
    Barrier,
    Close,
    Fault,
    Join,
    Make,
    Message,
    Pause,
    ProbeExposure,
    Ready,
    Receive,
    Scenario,
    Send,
    Wait,
    WaitBlocked,
)
from killpoint.search.case_run import CaseRun
from killpoint.targets.protocol import GroupShape, QueueShape

EXAMPLES = Path(__file__).parents[3] / "examples"
OPEN = [Make(), Attach(), Ready(timeout=10.0), Wait(within=15.0)]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("tcp_queue:TcpTarget") as made:
            yield made


def scene(*steps: Any, readers: int = 1) -> Scenario:
    shape = QueueShape(readers=readers, remote=readers)
    return Scenario("Q18/x", ["Q18"], [*OPEN, *steps], shape=shape, namespaces=True)


def played(stage: Stage, scenario: Scenario) -> Play:
    play = stage.play(scenario)
    stage.forget(play)
    if play.unable:
        pytest.skip(play.unable)
    assert play.stalled == ""
    return play


def got(play: Play, reader: str = "reader-0") -> list[tuple[int, str]]:
    return [(e.number("seq"), e.text("outcome")) for e in play.history.of("got", role=reader)]


def link(play: Play, fault: str) -> dict[str, object]:
    return next(e.data for e in play.history.of("link") if e.text("fault") == fault)


def kinds(play: Play) -> list[str]:
    found = CHECKERS["Q18"](play.scenario, play.history, play.ledger).violations
    return [violation.kind for violation in found]


@pytest.mark.parametrize("start", ["zygote", "spawn", "forkserver"])
def test_roles_meet_at_the_writers_host(stage: Stage, start: Any) -> None:
    steps = [Send([Message()]), Receive(1, timeout=5.0), Wait(), ProbeExposure(("writer",))]
    scenario = msgspec.structs.replace(scene(*steps, readers=2), start=start)
    play = played(stage, scenario)
    assert got(play) == got(play, "reader-1") == [(0, "ok")]
    assert {e.text("address") for e in play.history.of("listener")} == {"10.107.0.1"}
    assert play.ledger.empty(), play.ledger.words()


@pytest.mark.parametrize("toward", ["both", "role", "peer"])
def test_what_is_sent_in_a_cut_arrives_after_the_heal(stage: Stage, toward: Any) -> None:
    """The acknowledgement of what came before may be lost, too: then only more is said twice."""
    cut = Fault("cut", "reader-0", toward=toward)
    steps = [Receive(2, timeout=9.0), WaitBlocked(("readers",)), cut, Send([Message(repeat=2)])]
    steps += [Wait(("writer",)), Pause(0.7), Fault("heal", "reader-0"), Wait()]
    play = played(stage, scene(*steps))
    assert got(play) == [(0, "ok"), (1, "ok")]
    heal = next(e for e in play.history.of("intent") if e.text("fault") == "heal")
    if toward != "peer":
        assert all(event.t > heal.t for event in play.history.of("got"))
    assert link(play, "cut")["connections"] == 1
    assert link(play, "cut")["carries"] == (toward != "both")
    assert link(play, "heal")["carries"]
    assert kinds(play) == []


def test_the_writers_kernel_is_not_acknowledged_in_a_cut(stage: Stage) -> None:
    """It sends again and again: a relay's kernel would have taken it at once."""
    steps = [Fault("cut", "writer", toward="peer"), Send([Message()]), Wait(("writer",))]
    play = played(stage, scene(*steps, Pause(0.7), Fault("heal", "writer")))
    assert int(str(link(play, "heal")["resent"])) >= 2


def test_a_cut_of_one_reader_leaves_the_other_alone(stage: Stage) -> None:
    steps = [Fault("cut", "reader-0"), Send([Message()]), Receive(1, ("reader-1",), timeout=5.0)]
    play = played(stage, scene(*steps, Wait(("reader-1",)), Fault("heal", "reader-0"), readers=2))
    assert got(play, "reader-1") == [(0, "ok")]


def test_a_cut_of_the_writer_is_a_cut_of_everybody(stage: Stage) -> None:
    steps = [Fault("cut", "writer"), Send([Message()]), Receive(1, timeout=0.4), Wait()]
    play = played(stage, scene(*steps, readers=2))
    assert got(play) == got(play, "reader-1") == [(-1, "timeout")]


def test_a_cut_that_lasts_and_is_not_told_is_a_violation(stage: Stage) -> None:
    steps = [Receive(1), WaitBlocked(("readers",)), Fault("cut", "reader-0"), Send([Message()])]
    assert kinds(played(stage, scene(*steps, Wait(within=0.3)))) == ["hang"]


def test_a_cut_that_met_no_connection_has_not_struck(stage: Stage) -> None:
    cut = Fault("cut", "reader-0")
    play = played(stage, scene(Close(), Wait(), Pause(0.2), cut, Fault("heal", "reader-0")))
    assert play.unreached == ["cut of reader-0: no connection to strike"]


def test_the_next_set_of_roles_finds_the_links_whole(stage: Stage) -> None:
    scenario = msgspec.structs.replace(scene(Fault("cut", "reader-0"), Pause(0.1)), restart=True)
    assert got(played(stage, scenario)) == [(0, "ok")]


def test_hosts_are_no_leak_of_the_targets(stage: Stage) -> None:
    steps = [Fault("cut", "reader-0"), Fault("kill", "reader-0"), Fault("kill", "writer")]
    play = played(stage, scene(*steps))
    assert play.ledger.empty(), play.ledger.words()
    assert stage.zygote.descendants() == []


def test_ranks_meet_at_the_host_of_rank_0_and_are_cut_off_one_by_one() -> None:
    cut, heal = Fault("cut", "rank-1"), Fault("heal", "rank-1")
    steps = [Join(), Barrier(), Wait(within=30.0), ProbeExposure(("rank-0",)), cut]
    steps += [Barrier(("rank-0", "rank-2"), timeout=0.5), Wait(), heal]
    scenario = Scenario("G3/x", ["G3"], steps, group=GroupShape(3), namespaces=True)
    with Stage("refengine") as own:
        play = played(own, scenario)
    assert {e.text("address") for e in play.history.of("listener")} == {"10.107.0.1"}
    done = [(e.role, e.text("outcome") == "ok") for e in play.history.of("barrier-done")]
    assert sorted(done[:3]) == [("rank-0", True), ("rank-1", True), ("rank-2", True)]
    assert sorted(done[3:]) == [("rank-0", False), ("rank-2", False)]
    assert link(play, "cut")["connections"] == 1
    assert not link(play, "cut")["carries"]


_FORBIDDEN = """
from tcp_queue import TcpTarget
from killpoint.runner.network import namespaces

def refuse(kind):
    raise PermissionError(1, "Operation not permitted", "unshare")

class Target(TcpTarget):
    def load(self):
        super().load()
        namespaces.enter_new = refuse
"""


def test_a_machine_that_permits_no_namespaces_says_nothing_of_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "forbidden.py").write_text(_FORBIDDEN, "utf-8")
    with Stage("forbidden:Target") as own:
        case_run = CaseRun("Q18/x", own, seed=0, full=False, folder=None)
        outcome = case_run.judge(
            lambda case_run: void(case_run.play(scene(Fault("cut", "reader-0"))))
        )
        assert own.zygote.descendants() == []
    assert (outcome.outcome, outcome.by_machine) == ("unsupported", True)
    assert "network namespaces cannot be made here" in outcome.cause
    assert "Operation not permitted" in outcome.cause


def void(_: object) -> None:
    """A play's result is not asked for."""
