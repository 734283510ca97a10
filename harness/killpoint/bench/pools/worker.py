"""The workers of measured pools: they do nothing, one of them with torch at hand."""

from __future__ import annotations

import importlib


class Idle:
    """Answers at once."""

    def __init__(self, rank: int, workers: int) -> None:
        """Nothing to keep."""

    def init_device(self) -> None:
        """There is none."""

    def load_model(self) -> None:
        """There is none."""

    def nothing(self) -> None:
        """What is called."""


class WithTorch(Idle):
    """Ready once it has torch."""

    def load_model(self) -> None:
        """Import it, unless it is there."""
        importlib.import_module("torch")
