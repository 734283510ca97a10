"""A worker of a replica: its slice of the model, and its ends of the KV links."""

import importlib
import logging
from collections.abc import Sequence
from typing import Any

from ...executor import WorkerContext
from ...executor.tensors.reducing import Reducer, device_of, way_of
from ..kv_worker_links import TransferEnded, WorkerKvLinks
from ..model.batching import Batch, StepResult
from ..model.model import ExactModel
from ..model.size import ModelSize

_log = logging.getLogger(__name__)
_TRANSFER_WAIT = 0.005
"""Seconds for which a step without rows waits for the end of a transfer."""


class EngineWorker:
    """`Executor(EngineWorker, ranks, options={"size": …, "blocks": …, "block_size": …})`.

    `lease`: seconds for KV blocks to go over a link.
    """

    def __init__(
        self,
        place: WorkerContext,
        size: ModelSize,
        blocks: int,
        block_size: int,
        lease: float = 5.0,
    ) -> None:
        self._place, self._size = place, size
        self._blocks, self._block_size, self._lease = blocks, block_size, lease
        self._device = place.device
        self._reducer: Reducer | None = None
        self._model: ExactModel | None = None
        self._links: WorkerKvLinks | None = None

    def init_device(self) -> None:
        """Take this rank's device and join the other ranks."""
        torch: Any = importlib.import_module("torch")
        gpus: int = torch.cuda.device_count() if self._place.device == "cuda" else 0
        self._device = device_of(self._place, gpus)
        self._reducer = Reducer(self._place, way_of(self._place, gpus), self._device)
        self._links = WorkerKvLinks(self._device, self._lease)

    def load_model(self) -> None:
        """Make this rank's slice of the model, and its KV cache."""
        assert self._reducer is not None
        self._model = ExactModel(
            self._size,
            self._place.tensor_rank,
            self._place.tensor_parallel,
            self._device,
            self._reducer.reduce,
            self._blocks,
            self._block_size,
        )

    def execute_model(self, batch: Batch) -> StepResult:
        """Do one step: begin its transfers, and report those that ended since the last step."""
        assert self._model is not None
        assert self._links is not None
        for transfer in batch.send:
            self._links.send(transfer, self._model.take_blocks(transfer.table))
        for transfer in batch.fetch:
            self._links.fetch(transfer)
        done: list[str] = []
        failed: list[str] = []
        for ended in self._links.take(0 if batch.rows else _TRANSFER_WAIT):
            (done if self._is_whole(ended) else failed).append(ended.transfer.transfer_id)
        return StepResult(self._model.forward(batch), tuple(done), tuple(failed))

    def execute_dummy_batch(self) -> None:
        """Do a step without a request."""
        assert self._model is not None
        self._model.dummy()

    def kv_link(
        self,
        name: str,
        host: str,
        port: int | Sequence[int],
        rank: int,
        key: bytes | Sequence[bytes],
    ) -> None:
        """Connect to the other end of a KV link; rank 0 sends and listens, rank 1 receives.

        Each tensor rank has a link of its own: `port` and `key` are one, or one for each. Raises
        DeadlinePassed if the other end did not come within 2 s; call both at the same time.
        """
        assert self._links is not None
        mine = self._place.tensor_rank
        port = port if isinstance(port, int) else port[mine]
        key = key if isinstance(key, bytes) else key[mine]
        self._links.link(name, host, port, rank, key)

    def kv_unlink(self, name: str) -> None:
        """Close a link; its transfers fail. An unknown one is ignored."""
        assert self._links is not None
        self._links.unlink(name)

    def shutdown(self) -> None:
        """Close the links and the connection to the other ranks."""
        if self._links is not None:
            self._links.close()
        if self._reducer is not None:
            self._reducer.close()

    def _is_whole(self, ended: TransferEnded) -> bool:
        """Write fetched blocks into the cache, between steps; return whether all is whole."""
        assert self._model is not None
        failure, transfer = ended.failure, ended.transfer
        try:
            if ended.blocks is not None:
                self._model.put_blocks(transfer.table, ended.blocks)
        except ValueError as error:
            failure = str(error)
        if failure:
            _log.info("the KV transfer of %s failed: %s", transfer.transfer_id, failure)
        return not failure
