"""A worker that runs a tensor-parallel torch model on its device."""

import importlib
from collections.abc import Sequence
from typing import Any

from ..place import Place
from .model import Size, SplitModel
from .reducing import Reducer, device_of, way_of


class TorchWorker:
    """Give it to `Executor`: `Executor(TorchWorker, 2, device="cpu", options={"size": Size()})`."""

    def __init__(self, place: Place, size: Size | None = None) -> None:
        self._place, self._size = place, size or Size()
        self._device = place.device
        self._reducer: Reducer | None = None
        self._model: SplitModel | None = None

    def init_device(self) -> None:
        """Take this rank's device and join the other ranks."""
        torch: Any = importlib.import_module("torch")
        gpus: int = torch.cuda.device_count() if self._place.device == "cuda" else 0
        self._device = device_of(self._place, gpus)
        self._reducer = Reducer(self._place, way_of(self._place, gpus), self._device)

    def load_model(self) -> None:
        """Make this rank's slice."""
        assert self._reducer is not None
        place = self._place
        self._model = SplitModel(
            self._size, place.tensor_rank, place.tensor_parallel, self._device, self._reducer.reduce
        )

    def execute_model(self, tokens: Sequence[int]) -> list[int]:
        """The next token for each."""
        assert self._model is not None
        return self._model.next_tokens(tokens)

    def execute_dummy_batch(self) -> None:
        """A step that nobody asked for."""
        self.execute_model([0])

    def reduce(self, numel: int) -> float:
        """Sum ones over the ranks of the stage; what each element came to."""
        torch: Any = importlib.import_module("torch")
        assert self._reducer is not None
        ones = torch.ones(numel, device=self._device)
        return float(self._reducer.reduce(ones)[-1])

    def shutdown(self) -> None:
        """Leave the others in good order."""
        if self._reducer is not None:
            self._reducer.close()
