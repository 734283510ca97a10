"""Workers that do real work: a small torch module, split over the workers of a stage."""

from .worker import TorchWorker

__all__ = ["TorchWorker"]
