"""A worker that runs a tensor-parallel torch model on its device."""

import importlib
from collections.abc import Sequence
from typing import Any

from ..settings import WorkerContext
from .model import Size, SplitModel
from .reducing import Reducer, device_of, way_of


class TorchWorker:
    """Worker class: `Executor(TorchWorker, 2, device="cpu", options={"size": Size()})`."""

    def __init__(self, context: WorkerContext, size: Size | None = None) -> None:
        self._context, self._size = context, size or Size()
        self._device = context.device
        self._reducer: Reducer | None = None
        self._model: SplitModel | None = None

    def init_device(self) -> None:
        """Take this rank's device and join the other ranks."""
        torch: Any = importlib.import_module("torch")
        gpus: int = torch.cuda.device_count() if self._context.device == "cuda" else 0
        self._device = device_of(self._context, gpus)
        self._reducer = Reducer(self._context, way_of(self._context, gpus), self._device)

    def load_model(self) -> None:
        """Make this rank's slice of the model."""
        assert self._reducer is not None
        context = self._context
        self._model = SplitModel(
            self._size,
            context.tensor_rank,
            context.tensor_parallel,
            self._device,
            self._reducer.reduce,
        )

    def execute_model(self, tokens: Sequence[int]) -> list[int]:
        """Return the next token for each."""
        assert self._model is not None
        return self._model.next_tokens(tokens)

    def execute_dummy_batch(self) -> None:
        """Run a step without a request."""
        self.execute_model([0])

    def reduce(self, numel: int) -> float:
        """Sum ones over the ranks of the stage; return the value of the last element."""
        torch: Any = importlib.import_module("torch")
        assert self._reducer is not None
        ones = torch.ones(numel, device=self._device)
        return float(self._reducer.reduce(ones)[-1])

    def shutdown(self) -> None:
        """Leave the group of ranks in good order."""
        if self._reducer is not None:
            self._reducer.close()
