"""The search: every pass in turn, each going on from what still fails, until none finds more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from killpoint.errors import BadUsage
from killpoint.scenario import Scenario, dump, parse
from killpoint.search.shrink.attempt import Pass
from killpoint.search.shrink.messages import (
    fewer_calls,
    fewer_messages,
    fewer_rounds,
    fewer_slots,
)
from killpoint.search.shrink.options import earlier_points, fewer_options, quicker_calls
from killpoint.search.shrink.roles import fewer_roles
from killpoint.search.shrink.sizes import (
    plainer_messages,
    smaller_messages,
    smaller_ring,
    smaller_slots,
    smallest_messages,
)
from killpoint.search.shrink.steps import fewer_steps
from killpoint.search.shrink.tensors import fewer_tensors, smaller_tensors

PASSES: tuple[Pass, ...] = (
    quicker_calls,
    fewer_roles,
    earlier_points,
    fewer_steps,
    fewer_messages,
    fewer_slots,
    fewer_rounds,
    fewer_calls,
    fewer_tensors,
    fewer_options,
    plainer_messages,
    smaller_messages,
    smaller_ring,
    smallest_messages,
    smaller_slots,
    smaller_tensors,
)
"""Passes, in this order: those that make every later play cheaper, and the report shorter, come
first."""


class Found(msgspec.Struct):
    """The smallest scenario that still fails, as far as the search came."""

    scenario: Scenario
    tried: int
    """Number of candidates that were asked about."""
    finished: bool
    """True if no pass had anything more to offer; else the time was up."""


def search(
    scenario: Scenario,
    fails: Callable[[Scenario], bool],
    go_on: Callable[[], bool],
    passes: Sequence[Pass] = PASSES,
) -> Found:
    """Shrink a scenario that fails.

    Args:
        fails: whether a candidate fails in the same way; asked at most once about each.
        go_on: asked before each candidate whether there is time for it.
    """
    known = {dump(scenario): True}
    found = Found(scenario, 0, finished=False)
    while True:
        before = dump(found.scenario)
        for each in passes:
            if not _drive(each, found, known, fails, go_on):
                return found
        if dump(found.scenario) == before:
            found.finished = True
            return found


def _drive(
    each: Pass,
    found: Found,
    known: dict[str, bool],
    fails: Callable[[Scenario], bool],
    go_on: Callable[[], bool],
) -> bool:
    """Run one pass to its end; False if the time was up before."""
    offers = each(found.scenario)
    candidate = next(offers, None)
    while candidate is not None:
        text = dump(candidate)
        if text not in known:
            known[text] = False
            if playable(text):
                if not go_on():
                    return False
                found.tried += 1
                known[text] = fails(candidate)
        if known[text]:
            found.scenario = candidate
        try:
            candidate = offers.send(known[text])
        except StopIteration:
            return True
    return True


def playable(text: str) -> bool:
    """Return whether a candidate is valid: a pass looks at one thing, and may break another."""
    try:
        parse(text, "candidate")
    except BadUsage:
        return False
    return True
