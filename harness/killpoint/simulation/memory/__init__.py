"""Memory models behind one seam (:class:`.model.Model`), a file each."""

from __future__ import annotations

from killpoint.simulation.memory.model import Model
from killpoint.simulation.memory.relaxed import Relaxed
from killpoint.simulation.memory.sequential import Sequential
from killpoint.simulation.memory.tso import TotalStoreOrder
from killpoint.simulation.memory.view import View

MODELS: dict[str, type[Model]] = {
    "sequential": Sequential,
    "tso": TotalStoreOrder,
    "relaxed": Relaxed,
    "view": View,
}
"""By the name that a scenario gives them."""

WEAK = ("relaxed", "view")
"""What these show is true of the model only, unless hardware has been seen to do it."""
