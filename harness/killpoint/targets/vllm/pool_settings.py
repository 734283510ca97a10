"""The sections of vLLM's configuration that its executor and workers read."""

from __future__ import annotations

from typing import Any

from killpoint.targets.shapes import PoolShape


class Settings:
    """Section of a configuration: what it was given, and an error that names all else."""

    def __init__(self, name: str, **values: object) -> None:
        self.__dict__.update(values, _name=name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        section = self.__dict__.get("_name", "settings")
        raise AttributeError(f"killpoint has no stand-in for {section}.{name}", name=name)


def settings(shape: PoolShape, worker: str, *, overlapping: bool) -> Settings:
    """Return a stand-in for ``VllmConfig``: one node, no model, the harness's worker class.

    ``overlapping``: asynchronous scheduling, and with it the workers' output threads.
    """
    tensor = shape.tensor or shape.workers
    parallel = Settings(
        "parallel_config",
        world_size=shape.workers,
        local_world_size=shape.workers,
        tensor_parallel_size=tensor,
        pipeline_parallel_size=shape.workers // tensor,
        prefill_context_parallel_size=1,
        data_parallel_size=1,
        data_parallel_size_local=1,
        nnodes=1,
        nnodes_within_dp=1,
        node_rank=0,
        node_rank_within_dp=0,
        master_addr="127.0.0.1",
        enable_expert_parallel=False,
        enable_fault_tolerance=False,
        enable_shm_tensor_arena=False,
        numa_bind=False,
        assigned_physical_gpu_ids=None,
        worker_cls=worker,
    )
    scheduler = Settings("scheduler_config", async_scheduling=overlapping)
    return Settings(
        "vllm_config",
        parallel_config=parallel,
        scheduler_config=scheduler,
        model_config=None,
        cache_config=None,
        lora_config=None,
        load_config=None,
        device_config=None,
        speculative_config=None,
        decoding_config=None,
        prompt_adapter_config=None,
        observability_config=None,
        kv_transfer_config=None,
        ec_transfer_config=None,
        watchdog_config=None,
        logging_config=None,
    )
