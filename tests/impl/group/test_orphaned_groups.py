"""What stands after an interrupted call: given to the next one, or closed when its time is over."""

import threading
from typing import Any

from refengine.group.call_context import OrphanedGroups

from ..roles import until


class Group:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_thing_stands_at_its_place_until_it_is_given():
    orphaned: OrphanedGroups[Any] = OrphanedGroups()
    group = Group()
    orphaned.add("here", group)
    assert orphaned.find("there") is None
    assert orphaned.find("here") is orphaned.find("here") is group
    orphaned.remove("here")
    assert orphaned.find("here") is None
    orphaned.remove("here")
    assert group.closed == 0


def test_the_clock_runs_while_nobody_asks_and_then_closes():
    orphaned: OrphanedGroups[Any] = OrphanedGroups()
    found, lapsed = Group(), Group()
    for place, group in (("found", found), ("lapsed", lapsed)):
        orphaned.add(place, group)
        orphaned.start_timer(place, 0.05)
    assert orphaned.find("found") is found
    until(lambda: lapsed.closed)
    assert (lapsed.closed, found.closed) == (1, 0)
    assert orphaned.find("lapsed") is None
    assert orphaned._timers == {}


def test_a_clock_at_an_empty_place_does_not_run():
    orphaned: OrphanedGroups[Any] = OrphanedGroups()
    before = threading.active_count()
    orphaned.start_timer("here", 60.0)
    assert threading.active_count() == before
    assert orphaned._timers == {}


def test_a_clock_keeps_no_process_from_ending():
    orphaned: OrphanedGroups[Any] = OrphanedGroups()
    orphaned.add("here", Group())
    orphaned.start_timer("here", 60.0)
    assert orphaned._timers["here"].daemon
    orphaned.find("here")
