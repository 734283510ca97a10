"""The reference as a target, and the one place that imports it."""

from killpoint.targets.refengine.adapter import RefengineTarget

__all__ = ["RefengineTarget"]
