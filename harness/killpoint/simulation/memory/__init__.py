"""Memory models behind one interface (:class:`.model.Model`), a file each."""

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
"""Memory models by their names in scenarios."""

WEAK = ("relaxed", "view")
"""Models whose violations are true of the model only, unless hardware has been seen to show
them."""
