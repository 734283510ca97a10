"""What is offered at a point: the same objects from run to run, the default first."""

from __future__ import annotations

from killpoint.simulation.choice_sets import ChoiceSet, menus_of, values

NAMES = ("a", "b", "c")


def test_the_running_task_comes_first_and_passing_it_over_preempts() -> None:
    menu = ChoiceSet(NAMES, 0b111, 1)
    assert menu.tasks == [1, 0, 2]
    assert [option.preempts for option in menu.options] == [False, True, True]


def test_nobody_is_preempted_where_the_running_task_must_wait() -> None:
    menu = ChoiceSet(NAMES, 0b101, 1)
    assert menu.tasks == [0, 2]
    assert not any(option.preempts for option in menu.options)


def test_an_act_is_unasked_as_long_as_somebody_can_run() -> None:
    assert [o.preempts for o in ChoiceSet(NAMES, 0b001, 0).beside(2)] == [False, True, True]
    assert [o.preempts for o in ChoiceSet(NAMES, 0, None).beside(2)] == [False, False]


def test_time_that_passes_before_what_is_due_is_unasked() -> None:
    assert [o.preempts for o in ChoiceSet(NAMES, 0, None).beside(2, may_wait=True)] == [False, True]


def test_the_same_is_offered_in_every_run() -> None:
    menu = menus_of(NAMES).setdefault(0b111, ChoiceSet(NAMES, 0b111, None))
    assert menus_of(("a", "b", "c"))[0b111] is menu
    assert menu.beside(2) is menu.beside(2)
    assert values(3) is values(3)


def test_the_first_value_is_the_default_and_the_others_come_unasked() -> None:
    assert [o.preempts for o in values(3)] == [False, True, True]
    assert all(option.value for option in values(3))
