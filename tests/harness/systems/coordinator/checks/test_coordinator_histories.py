"""The judge of histories of many peers of a coordinator at once (H5): each rule convicts."""

from __future__ import annotations

import pytest
from coordinator_tape import CoordinatorTape, coordinator_convicted, coordinator_judged

from killpoint.checkers.finding import Inconclusive
from killpoint.verdict import Violation

_IDLE = (0, 0)


def _quiet(*, engines: int = 2) -> CoordinatorTape:
    """All have come, and have heard the coordinator."""
    tape = CoordinatorTape(engines=engines)
    for rank in range(engines):
        tape.tell(f"engine-{rank}", "heard", what="state", wave=0, running=False, counts=None)
    return tape.told(*[_IDLE] * engines)


def _comes(tape: CoordinatorTape, role: str, rank: int | None = None) -> CoordinatorTape:
    tape.tell(role, "begin", op="connect")
    tape.tell(role, "linked", **({} if rank is None else {"rank": rank}))
    if rank is not None:
        tape.tell(role, "heard", what="state", wave=0, running=False, counts=None)
    return tape


def _leaves(tape: CoordinatorTape, role: str) -> CoordinatorTape:
    tape.tell(role, "begin", op="disconnect")
    tape.tell(role, "unlinked")
    return tape


def _spoken(tape: CoordinatorTape, role: str, rank: int, counts: tuple[int, int]) -> None:
    tape.tell(role, "said", rank=rank, counts=list(counts))


def _on(tape: CoordinatorTape, wave: int = 0, *members: int) -> CoordinatorTape:
    """Somebody wants a wave, and all these ranks are in it."""
    ranks = members or (0, 1)
    tape.tell(f"engine-{ranks[0]}", "said", rank=ranks[0], wants=wave)
    for rank in ranks:
        tape.started(wave, *ranks, to=rank)
    return tape


def _ends(tape: CoordinatorTape, wave: int = 0, *members: int) -> CoordinatorTape:
    for rank in members or (0, 1):
        tape.tell(f"engine-{rank}", "ended", wave=wave + 1)
    return tape


def _held(tape: CoordinatorTape, **shape: int) -> dict[str, int]:
    found = coordinator_judged("H5", tape, **shape)
    assert found.violations == []
    return found.counts


def _wrong(tape: CoordinatorTape, **shape: int) -> Violation:
    return coordinator_convicted("H5", tape, **shape)


class TestCounts:
    """What a publication says of the counts of ranks."""

    def test_in_the_order_in_which_they_were_told(self) -> None:
        tape = _quiet().says(0, (1, 1)).says(0, (2, 1)).told((1, 1), _IDLE).told((2, 1), _IDLE)
        counts = _held(tape)
        assert (counts["changes"], counts["operations"]) == (2, 5)
        assert counts["overlapping pairs"] == 10

    def test_none_that_nobody_told(self) -> None:
        found = _wrong(_quiet().says(0, (1, 1)).told((1, 1), (1, 1)))
        assert found.kind == "wrong-data"
        assert "the counts [1, 1] of rank 1, which nobody told" in found.cause

    def test_no_older_ones_after_newer_ones(self) -> None:
        tape = _quiet().says(0, (1, 1)).says(0, (2, 1)).told((2, 1), _IDLE).told((1, 1), _IDLE)
        assert "told before others that had been heard" in _wrong(tape).cause

    def test_a_front_end_that_comes_is_told_none_older_than_what_others_know(self) -> None:
        tape = _quiet().says(0, (1, 1)).says(0, (2, 1)).told((2, 1), _IDLE)
        _comes(tape, "front-end-1").told((1, 1), _IDLE, front=1)
        assert "told before others that had been heard" in _wrong(tape, front_ends=2).cause

    def test_they_are_not_forgotten_of_a_rank_that_is_there(self) -> None:
        tape = _quiet().says(0, (1, 1)).told((1, 1), _IDLE).told(_IDLE, _IDLE)
        assert _wrong(tape).kind == "wrong-data"

    def test_those_of_the_gone_are_forgotten(self) -> None:
        tape = _quiet().says(1, (3, 1)).told(_IDLE, (3, 1))
        _leaves(tape, "engine-1").told(_IDLE, None)
        back = _comes(tape, "engine-2", 1).told(_IDLE, _IDLE)
        _held(back, spares=1)
        found = _wrong(back.told(_IDLE, (3, 1)), spares=1)
        assert (found.kind, "told before it was gone" in found.cause) == ("wrong-data", True)

    def test_two_links_of_one_rank_may_be_taken_in_either_order(self) -> None:
        tape = _comes(_quiet(), "engine-2", 1)
        _spoken(tape, "engine-1", 1, (1, 1))
        _spoken(tape, "engine-2", 1, (2, 1))
        _held(tape.told(_IDLE, (2, 1)).told(_IDLE, (1, 1)), spares=1)
        late = _comes(_quiet(), "engine-2", 1)
        _spoken(late, "engine-1", 1, (1, 1))
        _spoken(late.after(0.6), "engine-2", 1, (2, 1))
        assert _wrong(late.told(_IDLE, (2, 1)).told(_IDLE, (1, 1)), spares=1).kind == "wrong-data"


class TestTimes:
    """What front ends are told by when."""

    def test_a_change_is_heard_in_time(self) -> None:
        late = _quiet().says(0, (1, 1)).after(0.3).told((1, 1), _IDLE)
        found = _wrong(late)
        assert found.kind == "starved"
        assert "only after 0.30 s; 0.25 s are allowed" in found.cause
        _held(_quiet().says(0, (1, 1)).after(0.2).told((1, 1), _IDLE))

    def test_a_change_is_heard_at_all(self) -> None:
        tape = _quiet().says(0, (1, 1)).after(0.9).told(_IDLE, _IDLE)
        assert "front-end-0 never heard of the counts [1, 1]" in _wrong(tape).cause

    def test_of_who_leaves_or_is_out_of_range_nothing_need_be_heard(self) -> None:
        tape = _quiet().says(0, (1, 1))
        _held(_leaves(tape, "engine-0").after(0.9).told(None, _IDLE))
        spare = _comes(_quiet(), "engine-2", 2)
        _spoken(spare, "engine-2", 2, (1, 1))
        _held(spare.after(0.9).told(_IDLE, _IDLE), spares=1)

    def test_a_front_end_that_comes_is_told_all_ranks(self) -> None:
        def told(what: list[list[int]] | None) -> CoordinatorTape:
            tape = _comes(_quiet().says(0, (1, 1)).told((1, 1), _IDLE), "front-end-1")
            for _ in range(3):
                about = {"what": "state", "wave": 0, "running": False}
                tape.after(0.9).told((1, 1), _IDLE).tell(
                    "front-end-1", "heard", counts=what, **about
                )
            return tape

        _held(told([[1, 1], [0, 0]]), front_ends=2)
        found = _wrong(told(None), front_ends=2)
        assert found.kind == "starved"
        assert "front-end-1 came, heard the coordinator" in found.cause

    def test_a_machine_that_stood_still_may_have_kept_a_rank_from_its_signs(self) -> None:
        def late(*told: tuple[int, int] | None, after: float = 0.0) -> CoordinatorTape:
            tape = _quiet().after(3.0)
            tape.tell("director", "late-tick", ns=1_100_000_000).tell("x", "y")
            return tape.after(after).told(*told).told((9, 9), (9, 9))

        assert _wrong(late(_IDLE, _IDLE)).kind == "wrong-data"
        assert _wrong(late(_IDLE, None, after=5.1)).kind == "wrong-data"
        with pytest.raises(Inconclusive, match=r"held up for 1\.1 s, and a rank was given up"):
            coordinator_judged("H5", late(_IDLE, None))

    def test_who_is_told_nothing_shows_nothing(self) -> None:
        with pytest.raises(Inconclusive, match="no front end was told anything"):
            coordinator_judged("H5", CoordinatorTape())


class TestRanks:
    """Who is gone, and how many there are."""

    def test_who_left_is_gone_within_5_s(self) -> None:
        tape = _leaves(_quiet(), "engine-1").after(4.9).told(_IDLE, _IDLE)
        _held(tape)
        found = _wrong(tape.after(0.2).told(_IDLE, _IDLE))
        assert found.kind == "no-error"
        assert "rank 1 5 s after the end of its last link, that of engine-1" in found.cause

    def test_a_new_link_outlives_the_end_of_an_old_one(self) -> None:
        def taken_over(*counts: tuple[int, int] | None) -> CoordinatorTape:
            tape = _leaves(_comes(_quiet(), "engine-2", 1), "engine-1")
            return tape.told(_IDLE, None).after(5.2).told(*counts)

        _held(taken_over(_IDLE, _IDLE), spares=1)
        found = _wrong(taken_over(_IDLE, None), spares=1)
        assert (
            found.kind,
            "rank 1 is gone, which had been there for 5 s as engine-2" in found.cause,
        ) == ("lost", True)

    def test_counts_outlive_the_end_of_an_old_link_too(self) -> None:
        tape = _comes(_quiet(), "engine-2", 1)
        _spoken(tape, "engine-2", 1, (2, 1))
        tape.told(_IDLE, (2, 1))
        _held(_leaves(tape, "engine-1").told(_IDLE, (2, 1)), spares=1)
        assert _wrong(tape.told(_IDLE, _IDLE), spares=1).kind == "wrong-data"

    def test_who_listens_before_the_number_includes_it_is_there_then(self) -> None:
        tape = _comes(_quiet(), "engine-2", 2)
        tape.tell("front-end-0", "scaled", engines=3)
        tape.told(_IDLE, _IDLE, None)
        found = _wrong(tape.after(5.2).told(_IDLE, _IDLE, None), spares=1)
        assert "rank 2 is gone, which had been there for 5 s as engine-2" in found.cause

    def test_their_number_is_one_that_was_asked_for(self) -> None:
        found = _wrong(_quiet().told(_IDLE, _IDLE, _IDLE))
        assert "was told of 3 ranks, which nobody asked for" in found.cause
        tape = _quiet()
        tape.tell("front-end-0", "scaled", engines=3)
        _held(tape.told(_IDLE, _IDLE).told(_IDLE, _IDLE, _IDLE))
        assert _wrong(tape.told(_IDLE, _IDLE)).kind == "wrong-data"

    def test_another_number_is_told_with_the_next_publication(self) -> None:
        tape = _quiet()
        tape.tell("front-end-0", "scaled", engines=3)
        found = _wrong(tape.after(1.2).told(_IDLE, _IDLE).after(0.2).told(_IDLE, _IDLE))
        assert (found.kind, "3 ranks with the next publication" in found.cause) == ("late", True)

    def test_the_scaling_of_others_forgets_no_counts(self) -> None:
        tape = _quiet().says(1, (2, 1)).told(_IDLE, (2, 1))
        tape.tell("front-end-0", "scaled", engines=3)
        _held(tape.told(_IDLE, (2, 1), _IDLE))
        assert _wrong(tape.told(_IDLE, _IDLE, _IDLE)).kind == "wrong-data"

    def test_a_coordinator_that_ends_unasked_crashed(self) -> None:
        tape = _quiet()
        tape.tell("parent", "coordinator-gone", pid=7, line="IndexError: 3")
        found = _wrong(tape)
        assert (found.kind, found.cause) == (
            "crash",
            "the coordinator ended unasked: IndexError: 3",
        )


class TestWaves:
    """Who is in a wave, when it ends, and who is told."""

    def test_a_wave_begins_runs_and_ends(self) -> None:
        tape = _on(_quiet()).told(_IDLE, _IDLE, running=True)
        tape.tell("engine-0", "said", rank=0, done=0)
        counts = _held(_ends(tape).told(_IDLE, _IDLE, wave=1))
        assert counts["states"] > 3

    def test_none_that_nobody_brought_about(self) -> None:
        assert (
            "wave 1 as the next one, which nobody"
            in _wrong(_quiet().told(_IDLE, _IDLE, wave=1)).cause
        )
        assert "wave 0 as running" in _wrong(_quiet().told(_IDLE, _IDLE, running=True)).cause

    def test_none_goes_back_whoever_is_told(self) -> None:
        tape = _on(_quiet()).told(_IDLE, _IDLE, running=True)
        _comes(tape, "front-end-1")
        _held(tape, front_ends=2)
        found = _wrong(tape.told(_IDLE, _IDLE, front=1), front_ends=2)
        assert (found.kind, "after wave 0 as running" in found.cause) == ("bad-transition", True)

    def test_all_are_told_of_the_same_members(self) -> None:
        tape = _on(_quiet())
        assert "told to be of ranks [0, 1], and of [0]" in _wrong(tape.started(0, 0)).cause
        assert "of ranks [0, 2], of 2 that there are" in _wrong(_quiet().started(0, 0, 2)).cause

    def test_nobody_is_left_in_one_with_the_gone(self) -> None:
        def lost() -> CoordinatorTape:
            tape = _on(_quiet()).told(_IDLE, _IDLE, running=True)
            return _leaves(tape, "engine-1").told(_IDLE, None, running=True)

        moved = lost().told(_IDLE, None, wave=1, running=True).started(1, 0)
        _held(moved.after(5.2).told(_IDLE, None, wave=1, running=True))
        stuck = lost().after(5.2).told(_IDLE, None, running=True)
        assert "engine-0 was left in wave 0 with rank 1" in _wrong(stuck).cause
        assert "engine-0 was left" in _wrong(_leaves(stuck, "engine-0")).cause

    def test_its_end_is_told_with_the_next_publication(self) -> None:
        tape = _ends(_on(_quiet()).told(_IDLE, _IDLE, running=True))
        _held(tape.after(0.9).told(_IDLE, _IDLE, wave=1))
        late = _ends(_on(_quiet()).told(_IDLE, _IDLE, running=True))
        for _ in range(2):
            late.after(0.9).told(_IDLE, _IDLE, running=True)
        found = _wrong(late)
        assert found.kind == "late"
        assert "front-end-0 was not told of the end of wave 0" in found.cause

    def test_its_begin_is_told_with_the_next_publication(self) -> None:
        tape = _on(_quiet())
        for _ in range(2):
            tape.after(0.9).told(_IDLE, _IDLE)
        assert "not told of wave 0, in which engine-0 was" in _wrong(tape).cause

    def test_a_request_is_in_one_within_5_s_unless_another_is_on(self) -> None:
        lost = _quiet().accepts(0, 0).after(5.2).told(_IDLE, _IDLE)
        found = _wrong(lost)
        assert (found.kind, "request 0 of engine-0 was in no wave" in found.cause) == ("lost", True)
        _wrong(_leaves(_leaves(lost, "engine-1"), "engine-0"))
        waits = _on(_comes(_quiet(), "engine-2", 1), 0, 0).told(_IDLE, _IDLE, running=True)
        waits.tell("engine-2", "request", n=0, wave=0)
        _held(waits.after(5.2).told(_IDLE, _IDLE, running=True), spares=1)
