"""The workers of measured pools: they do nothing, one of them with torch at hand."""

from __future__ import annotations

import importlib


class Idle:
    """Answers at once."""

    def __init__(self, rank: int, workers: int) -> None:
        """Keep nothing."""

    def init_device(self) -> None:
        """Do nothing: there is no device."""

    def load_model(self) -> None:
        """Do nothing: there is no model."""

    def nothing(self) -> None:
        """Do nothing: the call that is measured."""


class WithTorch(Idle):
    """Ready once it has torch."""

    def load_model(self) -> None:
        """Import it, unless it is there."""
        importlib.import_module("torch")
