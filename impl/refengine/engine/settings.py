"""What an engine can be told at its start: replicas, cache, limits, times."""

from dataclasses import dataclass, field

from .model.size import ModelSize


@dataclass(frozen=True)
class EngineSettings:
    """Times are seconds. Raises ValueError for what cannot run."""

    tensor_parallel: int = 1
    data_parallel: int = 1
    prefill: int = 0
    """Replicas that only prefill; without any, each replica does both."""
    device: str = "cpu"
    size: ModelSize = field(default_factory=ModelSize)
    blocks: int = 256
    """Of the paged KV cache, per replica."""
    block_size: int = 16
    """Tokens of a block."""
    max_running: int = 32
    """Requests that are batched together."""
    max_step_tokens: int = 256
    """Of one step, over all requests; longer prompts are prefilled in chunks."""
    max_waiting: int = 1024
    """One more is refused with EngineFull."""
    start_timeout: float = 120.0
    step_timeout: float = 10.0
    """A step that takes longer: the replica is ended and started anew."""
    retries: int = 3
    """How often a request may be begun anew elsewhere."""
    restart: bool = True
    """Replicas and the coordinator come back after they died."""
    kv_lease: float = 5.0
    """For blocks on their way from prefill to decode."""

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
        self.size.check_ranks(self.tensor_parallel)
        self.size.check_exact(self.most_tokens)

    @property
    def most_tokens(self) -> int:
        """What the KV cache of one replica holds."""
        return self.blocks * self.block_size
