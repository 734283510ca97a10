"""C1 to C3 in every order of the wave protocol's messages, and of a coordinator alone."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import Orders, Scenario, Wakes
from killpoint.search.case_run import CaseRun
from killpoint.search.message_orders.case_run import explore
from killpoint.systems.coordinator.unanswered_start_run import wake_twice

_SECONDS = 60.0
_NEEDS = frozenset({"waves"})

_BOTH = Orders(engines=2, front_ends=2, requests=2)
_HELD = Orders(engines=2, front_ends=1, requests=2, holds=1)
_THREE = Orders(engines=3, front_ends=1, requests=1)
_WIDE = Orders(engines=3, front_ends=2, requests=2)
_LONG_HELD = Orders(engines=2, front_ends=2, requests=3, holds=1)
_DEATH = Orders(engines=2, front_ends=1, requests=2, deaths=1)
_THREE_DEATH = Orders(engines=3, front_ends=1, requests=1, deaths=1)
_HELD_DEATH = Orders(engines=2, front_ends=1, requests=1, holds=1, deaths=1)
_THREE_HELD = Orders(engines=3, front_ends=1, requests=1, holds=1)


def _case(name: str, summary: str, shapes: list[Orders], full: list[Orders]) -> Case:
    """``full``: further ones, larger; all of them of all cases take less than a minute."""

    def run(case_run: CaseRun) -> None:
        for orders in [*shapes, *full] if case_run.full else shapes:
            explore(case_run, Scenario(name, [name.split("/")[0]], [], orders=orders), _SECONDS)

    return Case(name, summary, run, _NEEDS)


_UNANSWERED = "C2/second-wake-after-unanswered"


def _second_wake(case_run: CaseRun) -> None:
    for late in (False, True):
        for wakes in (Wakes(late=late), Wakes(3, 0, late=late)):
            wake_twice(case_run, Scenario(_UNANSWERED, ["C2"], [], wakes=wakes))


CASES: tuple[Case, ...] = (
    _case(
        "C1/every-order",
        "front ends never lead the coordinator, and an engine by one wave at most",
        [_BOTH, _THREE],
        [_WIDE],
    ),
    _case(
        "C2/every-order",
        "every accepted request is stepped, whoever begins to listen when",
        [_BOTH, _THREE],
        [_WIDE],
    ),
    _case(
        "C2/every-order-with-holds",
        "every accepted request is stepped, though an engine obeys no start for some time",
        [_HELD],
        [_LONG_HELD, _THREE_HELD],
    ),
    _case(
        "C1/every-order-with-a-death",
        "an engine dies: front ends never lead the coordinator, an engine by one wave at most",
        [_DEATH],
        [_THREE_DEATH],
    ),
    _case(
        "C2/every-order-with-a-death",
        "an engine dies at any time: what the others have accepted is stepped",
        [_DEATH],
        [_THREE_DEATH, _HELD_DEATH],
    ),
    _case(
        "C3/every-order-with-a-death",
        "an engine dies at any time: nobody waits for it for ever, nor meets in another wave",
        [_DEATH],
        [_THREE_DEATH, _HELD_DEATH],
    ),
    Case(
        _UNANSWERED,
        "a wave was started that no engine obeyed; the next request wakes them all the same",
        _second_wake,
        frozenset({"coordinator", "sim_sockets"}),
    ),
    _case(
        "C3/every-order",
        "engines that step together are in one wave, and none waits for ever",
        [_BOTH, _THREE, _HELD],
        [_WIDE, _THREE_HELD],
    ),
)
