"""Settings of an engine: replicas, cache, limits, times."""

import math
from dataclasses import dataclass, field

from ..executor.nodes.settings import NodeSettings
from .model.size import ModelSize

_SILENCE_NOTICED_WITHIN = 1.5
"""Seconds after the nodes' peer timeout in which the other node's silence is noticed."""


@dataclass(frozen=True)
class EngineSettings:
    """Settings of an engine; times in seconds. Raises ValueError for settings that cannot run."""

    tensor_parallel: int = 1
    data_parallel: int = 1
    prefill: int = 0
    """Number of replicas that only prefill; without any, each replica does both."""
    device: str = "cpu"
    size: ModelSize = field(default_factory=ModelSize)
    blocks: int = 256
    """Blocks of the paged KV cache, per replica."""
    block_size: int = 16
    """Tokens per block."""
    max_running: int = 32
    """Maximum number of requests in a batch."""
    max_step_tokens: int = 256
    """Maximum number of tokens of one step, over all requests; longer prompts go in chunks."""
    max_waiting: int = 1024
    """Maximum number of waiting requests; one more is refused with EngineFull."""
    start_timeout: float = 120.0
    step_timeout: float = 10.0
    """Seconds for one step; a replica whose step takes longer is ended and started anew."""
    retries: int = 3
    """Number of times that a request may be begun anew on another replica."""
    restart: bool = True
    """True to restart replicas and the coordinator after they died."""
    kv_lease: float = 5.0
    """Seconds for blocks to go from a prefill to a decode replica."""
    nodes: NodeSettings | None = None
    """The two nodes that the workers of the one replica run on; None: this machine alone."""

    def __post_init__(self) -> None:
        counts = (
            self.data_parallel,
            self.blocks,
            self.block_size,
            self.max_running,
            self.max_step_tokens,
            self.max_waiting,
        )
        if min(counts) < 1 or self.prefill < 0 or self.retries < 0:
            raise ValueError("an engine needs at least one of each, and no count is negative")
        if min(self.start_timeout, self.step_timeout, self.kv_lease) <= 0:
            raise ValueError("an engine's times are longer than nothing")
        if not self.kv_lease < math.inf:
            raise ValueError(f"a kv_lease ends some time, not after {self.kv_lease} s")
        if self.nodes is not None:
            self._check_nodes(self.nodes)
        self.size.check_ranks(self.tensor_parallel)
        self.size.check_exact(self.most_tokens)

    @property
    def restarts(self) -> bool:
        """True if parts are started anew; none is on two nodes, whose follower ends with them."""
        return self.restart and self.nodes is None

    def _check_nodes(self, nodes: NodeSettings) -> None:
        if self.data_parallel > 1 or self.prefill or self.tensor_parallel % 2:
            raise ValueError(
                "two nodes share one replica, with an even number of tensor-parallel workers"
            )
        if self.step_timeout <= nodes.peer_timeout + _SILENCE_NOTICED_WITHIN:
            raise ValueError(
                f"a step has {self.step_timeout:g} s, and the other node may be silent for"
                f" {nodes.peer_timeout:g} s of them: expected"
                f" {_SILENCE_NOTICED_WITHIN:g} s more for a step at least"
            )

    @property
    def most_tokens(self) -> int:
        """Number of tokens that the KV cache of one replica holds."""
        return self.blocks * self.block_size
