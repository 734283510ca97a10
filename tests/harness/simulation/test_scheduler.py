"""The simulated world: whose turn it is, how runs end, and what becomes of what is broken off."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from killpoint.interfaces import Diverged
from killpoint.search.schedules.replay import FixedSchedule
from killpoint.simulation.ending import Ending
from killpoint.simulation.scheduler import Scheduler, Unfair


def _run(
    *tasks: Callable[[Scheduler], None], choices: tuple[int, ...] = (), limit: int = 500
) -> Ending:
    world = Scheduler(FixedSchedule(choices), limit=limit, recording=True)
    for index, task in enumerate(tasks):
        world.task("abc"[index], lambda task=task: task(world))
    return world.run()


def _steps(world: Scheduler) -> None:
    for _ in range(3):
        world.point()
        world.note("step")


def _order(ending: Ending) -> str:
    return "".join(line.lane for line in ending.lines)


def test_by_default_the_running_task_goes_on_to_its_end() -> None:
    ending = _run(_steps, _steps)
    assert (ending.how, _order(ending)) == ("done", "aaabbb")


def test_a_choice_gives_the_turn_to_another() -> None:
    assert _order(_run(_steps, _steps, choices=(0, 0, 1))) == "abbbaa"


def test_a_schedule_that_does_not_fit_is_refused() -> None:
    with pytest.raises(Diverged, match="is 7 of 2"):
        _run(_steps, _steps, choices=(0, 7))


def test_a_task_cannot_swallow_that_the_schedule_does_not_fit() -> None:
    def swallows(world: Scheduler) -> None:
        try:
            _steps(world)
        except Exception:
            return

    with pytest.raises(Diverged):
        _run(swallows, _steps, choices=(0, 7))


def test_what_a_task_raises_is_raised_by_the_run() -> None:
    def fails(_: Scheduler) -> None:
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        _run(fails, _steps)


def test_who_waits_for_what_never_comes_is_a_deadlock_and_named() -> None:
    ending = _run(lambda world: world.wait(lambda: False, None, "the other"), _steps)
    assert ending.how == "deadlock"
    assert ending.waiting == {"a": "the other"}


def test_spinning_on_what_never_changes_is_a_deadlock() -> None:
    def spins(world: Scheduler) -> None:
        while True:
            world.point()
            world.spin("a flag")

    ending = _run(spins, spins)
    assert ending.how == "deadlock"
    assert ending.waiting == {"a": "a flag", "b": "a flag"}
    assert ending.steps < 50


def test_a_spinner_looks_again_after_each_change_by_others() -> None:
    box = [0]

    def waits(world: Scheduler) -> None:
        while True:
            world.point()
            if box[0] == 3:
                return
            world.spin()

    def counts(world: Scheduler) -> None:
        for _ in range(3):
            world.point()
            box[0] += 1
            world.moved()

    for first in (0, 1):
        box[0] = 0
        assert _run(waits, counts, choices=(first, 0, 1, 0, 1)).how == "done"


def test_tasks_that_keep_changing_things_in_vain_are_a_livelock() -> None:
    def dances(world: Scheduler) -> None:
        while True:
            world.point()
            world.moved()
            world.spin()

    assert _run(dances, dances).how == "livelock"


def test_who_gets_nothing_done_while_others_do_is_starved() -> None:
    def works(world: Scheduler) -> None:
        while True:
            world.point()
            world.moved()
            world.progress()
            world.spin()

    def tries(world: Scheduler) -> None:
        while True:
            world.point()
            world.spin()

    ending = _run(works, tries)
    assert ending.how == "starvation"
    assert next(iter(ending.waiting)) == "b"


def test_a_loop_that_never_yields_says_nothing_of_who_was_passed_over() -> None:
    def loops(world: Scheduler) -> None:
        while True:
            world.point()

    with pytest.raises(Unfair, match="a loops without ever yielding to b"):
        _run(loops, _steps)


def test_the_clock_moves_only_when_nobody_can_run() -> None:
    seen: list[float] = []

    def sleeps(world: Scheduler) -> None:
        world.wait(lambda: False, 5.0, "a sleep")
        seen.append(world.now)

    def works(world: Scheduler) -> None:
        _steps(world)
        seen.append(world.now)

    assert _run(sleeps, works).how == "done"
    assert seen == [0.0, 5.0]


def test_a_spinner_that_looks_at_the_clock_is_given_time() -> None:
    def until(world: Scheduler) -> None:
        while world.now < 5:
            world.point()
            world.spin()

    assert _run(until).how == "done"


def test_a_wait_ends_by_what_it_waits_for() -> None:
    box: list[int] = []
    told: list[bool] = []

    def gives(world: Scheduler) -> None:
        world.point()
        box.append(1)
        world.moved()

    ending = _run(lambda world: told.append(world.wait(lambda: bool(box), 9.0, "it")), gives)
    assert (ending.how, told, ending.now) == ("done", [True], 0.0)


def test_a_store_does_not_ask_who_waits_for_something_else() -> None:
    asked: list[int] = []

    def waits(world: Scheduler) -> None:
        world.wait(lambda: asked.append(world.version) or world.version > 2, None, "a message")

    def acts(world: Scheduler) -> None:
        for change in (world.stored, world.stored, world.moved):
            change()
            world.point()

    assert _run(waits, acts).how == "done"
    assert set(asked) >= {0, 3}
    assert not {1, 2} & set(asked)


def test_a_store_wakes_who_spins_before_time_passes() -> None:
    memory = [0]

    def after(value: int) -> Callable[[Scheduler], None]:
        def task(world: Scheduler) -> None:
            for least in (value, 3):
                world.point()
                while memory[0] < least:
                    world.spin()
                    world.point()
                if least == value:
                    memory[0] += 1
                    world.stored()

        return task

    ending = _run(after(1), after(0), after(2))
    assert (ending.how, ending.now) == ("done", 0.0)


def test_a_run_broken_off_lets_no_finally_go_on_acting() -> None:
    acted: list[str] = []

    def stubborn(world: Scheduler) -> None:
        try:
            world.wait(lambda: False, None, "nothing")
        finally:
            world.point()
            acted.append("after the end")

    assert _run(stubborn).how == "deadlock"
    assert acted == []


def test_a_value_is_decided_by_the_schedule_and_noted() -> None:
    got: list[int] = []

    def asks(world: Scheduler) -> None:
        got.append(world.decide(3, lambda which: f"way {which}"))

    ending = _run(asks, choices=(2,))
    assert (got, ending.choices) == ([2], [2])
    assert [line.text for line in ending.lines] == ["way 2"]
