from __future__ import annotations

import pytest

from killpoint.systems.queue.checks.simulated_wakeups import WakeupRun, check_prompt_wakeups


def test_a_reader_that_wakes_at_once_or_within_100_ms_is_well() -> None:
    assert check_prompt_wakeups(WakeupRun([2.0, 4.0], {"reader-0": [2.0, 4.1]})) is None


def test_a_reader_that_sleeps_on_is_late_by_as_much() -> None:
    found = check_prompt_wakeups(
        WakeupRun([2.0, 4.0], {"reader-0": [2.0, 4.0], "reader-1": [2.0, 9.0]})
    )
    assert found is not None
    assert found.kind == "late"
    assert "reader-1 slept through message 1: it woke 5 s later" in found.cause


@pytest.mark.parametrize(("hurried", "kind"), [([(1.0, 2.0)], "late"), ([(2.0, 4.0)], None)])
def test_what_was_still_on_its_way_meanwhile_is_not_the_readers_fault(
    hurried: list[tuple[float, float]], kind: str | None
) -> None:
    found = check_prompt_wakeups(WakeupRun([2.0], {"reader-0": [7.0]}, hurried=hurried))
    assert (found.kind if found else None) == kind


def test_a_reader_that_never_wakes_hangs_and_the_message_is_named() -> None:
    waiting = {"reader-0": "its bell"}
    found = check_prompt_wakeups(
        WakeupRun([2.0], {"reader-0": []}, how="deadlock", waiting=waiting)
    )
    assert found is not None
    assert found.kind == "hang"
    assert found.cause.startswith("reader-0 never wakes for message 0, which is there")


def test_a_writer_that_cannot_go_on_hangs_too() -> None:
    waiting = {"writer": "a free slot", "reader-0": "a message"}
    found = check_prompt_wakeups(
        WakeupRun([2.0], {"reader-0": [2.0]}, how="deadlock", waiting=waiting)
    )
    assert found is not None
    assert (found.kind, "writer waits for a free slot" in found.cause) == ("hang", True)


def test_a_wrong_message_is_told_first() -> None:
    found = check_prompt_wakeups(
        WakeupRun([2.0], {"reader-0": [9.0]}, wrong="reader-0 got 7 in place of message 0")
    )
    assert found is not None
    assert found.kind == "wrong-data"
