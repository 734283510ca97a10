"""A lane: one player at a time, begun when there is something to play, and again after its end."""

from __future__ import annotations

import threading
import time

import msgspec

from killpoint.campaign.work_order import WorkOrder, WorkResult, failed
from killpoint.campaign.worker_client import Player
from killpoint.errors import CannotWork


class Lane:
    """Plays one order at a time; whatever becomes of the player, there is an answer."""

    def __init__(self, target: str, device: str) -> None:
        """``target``: as after ``--target``."""
        self._target, self._device = target, device
        self._player: Player | None = None
        self._lock = threading.Lock()
        self._closed = False

    def play(self, order: WorkOrder) -> WorkResult:
        """Have it played; ``infrastructure`` if the player dies or hangs over it.

        Raises:
            CannotWork: no player can be started, or the lane is closed.
        """
        began = time.monotonic()
        player = self._ready()
        try:
            played = player.ask(order)
            cause = f"no answer in {order.within:.0f} s: its player was ended"
        except (EOFError, OSError, msgspec.DecodeError):
            played, cause = None, f"its player {player.end()}"
        if played is None or played.word == "infrastructure":
            # Its stage may be broken: the next order has another.
            player.end()
            with self._lock:
                self._player = None
        return played or failed(order.item, cause, round(time.monotonic() - began, 3))

    def close(self) -> None:
        """End the player, if there is one, whatever it does; by any thread."""
        with self._lock:
            self._closed = True
            player = self._player
        if player is not None:
            player.end()

    def _ready(self) -> Player:
        with self._lock:
            if self._closed:
                raise CannotWork("the campaign is over")
            if self._player is None:
                self._player = Player(self._target, self._device)
            return self._player
