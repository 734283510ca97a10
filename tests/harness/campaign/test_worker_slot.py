"""A lane answers, whatever becomes of its player."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest
from campaign_process import wait_for

from killpoint.campaign.item import Item
from killpoint.campaign.work_order import WorkOrder
from killpoint.campaign.worker_slot import Lane
from killpoint.errors import CannotWork

_ITEM = Item("R1/two-readers")


def _order(within: float = 60.0, target: str = "refengine") -> WorkOrder:
    return WorkOrder(_ITEM, target, "cpu", within)


def test_a_player_that_is_killed_or_hangs_costs_one_item(
    leftovers: Callable[[], set[str]],
) -> None:
    lane = Lane("refengine", "cpu")

    def kill() -> None:
        wait_for("a player", leftovers)
        os.kill(int(leftovers().pop()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    killed = lane.play(_order())
    killer.join()
    assert (killed.word, killed.cause) == ("infrastructure", "its player ended with status -9")
    hung = lane.play(_order(within=0.1))
    assert (hung.word, hung.cause) == ("infrastructure", "no answer in 0 s: its player was ended")
    held = lane.play(_order())
    lane.close()
    assert (held.word, held.plays) == ("held", 1)
    assert leftovers() == set()
    with pytest.raises(CannotWork, match="over"):
        lane.play(_order())


def test_a_target_that_cannot_be_had_is_told_in_its_own_words() -> None:
    lane = Lane("nowhere:Target", "cpu")
    played = lane.play(_order(target="nowhere:Target"))
    lane.close()
    assert played.word == "infrastructure"
    assert "No module named 'nowhere'" in played.cause
