"""Stand-ins of our own for what vLLM's executor takes from the rest of vLLM.

Many names are there for annotations alone: they become empty classes, so that access to one of
their attributes fails and names it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import secrets
from collections.abc import Callable, Generator, Mapping
from typing import Any, NoReturn, TypeVar

from killpoint.targets.vllm.loading import stubs
from killpoint.targets.vllm.pool_worker import WorkerWrapper

NOTES = (
    "vllm.config: only what the executor and its workers read of it, for one node without a model",
    "vllm.v1.worker, vllm.worker: a wrapper of killpoint's around a worker class of killpoint's",
    "vllm.executor (up to 0.11.0): a bare base class",
    "vllm.distributed: no model-parallel groups are made; a rank is told to the worker class",
    "vllm.utils: the start method is asked for, never forced; process titles and log prefixes are"
    " left as they are; nothing is bound to cores; the watch dog is off, as by default",
    "vllm.platforms: no accelerator and no CPU backend, so that spawned workers start at once",
    "vllm.tracing, vllm.multimodal: absent",
    "queues of a pool are made with the chunk size and count that were asked for",
    "environment: VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS, from 0.24, is the grace in whole seconds;"
    " no other grace of vLLM's can be set",
)
"""Parts that were replaced or switched off for the pool, for reports."""

_F = TypeVar("_F", bound=Callable[..., object])

_NAMES: Mapping[str, tuple[str, ...]] = {
    "vllm.config": ("VllmConfig",),
    "vllm.distributed.ec_transfer.ec_connector.utils": ("ECOutputAggregator",),
    "vllm.distributed.kv_transfer.kv_connector.v1.base": ("KVConnectorHandshakeMetadata",),
    "vllm.executor.uniproc_executor": ("UniProcExecutor", "ExecutorWithExternalLauncher"),
    "vllm.lora.request": ("LoRARequest",),
    "vllm.multimodal": ("MULTIMODAL_REGISTRY",),
    "vllm.tasks": ("SupportedTask",),
    "vllm.v1.core.sched.output": ("GrammarOutput", "SchedulerOutput"),
    "vllm.v1.engine": ("ReconfigureDistributedRequest",),
    "vllm.v1.executor.uniproc_executor": ("UniProcExecutor", "ExecutorWithExternalLauncher"),
    "vllm.v1.executor.utils": ("get_and_update_mm_cache",),
    "vllm.v1.kv_cache_interface": ("KVCacheConfig", "KVCacheSpec"),
    "vllm.v1.outputs": (
        "AsyncModelRunnerOutput",
        "DraftTokenIds",
        "KVConnectorOutput",
        "ModelRunnerOutput",
    ),
    "vllm.v1.worker.worker_base": ("CompilationTimes", "WorkerBase"),
}
"""Names that a pool here uses as names alone."""


class ExecutorBase:
    """Base class of executors up to 0.11.0: it keeps the settings, and has the pool made."""

    def __init__(self, vllm_config: Any) -> None:
        self.vllm_config = vllm_config
        self.parallel_config = vllm_config.parallel_config
        self.scheduler_config = vllm_config.scheduler_config
        self._init_executor()

    def _init_executor(self) -> None:
        raise NotImplementedError

    def __del__(self) -> None:
        self.shutdown()

    def shutdown(self) -> None:
        """Do nothing: an executor has its own."""


class KVOutputAggregator:
    """Class that releases from 0.10.0 to 0.10.2 make, and use only with a connector."""

    def __init__(self, world_size: int) -> None:
        del world_size


class Group:
    """Group of one."""

    rank_in_group = 0
    world_size = 1


class WatchDog:
    """Watch dog of vLLM's where no folder for its dumps was set."""

    def feed(self) -> None:
        """Do nothing."""

    def handle_failure(self, reason: str) -> None:
        """Do nothing."""

    def disable(self) -> contextlib.AbstractContextManager[None]:
        """Suspend nothing."""
        return contextlib.nullcontext()


class PoolPlatform(stubs.Platform):
    """A machine without accelerators, on which vLLM is not a CPU backend either."""

    def is_cpu(self) -> bool:
        """Return False: the CPU backend starts spawned workers one by one, all others at once."""
        return False

    def update_block_size_for_backend(self, vllm_config: object) -> None:
        """Do nothing: there is no cache of blocks."""


class OMPProcessManager:
    """Class of the CPU backend; elsewhere it does nothing."""

    def __init__(self, vllm_config: object) -> None:
        del vllm_config

    def configure_omp_envs(self, **_: object) -> contextlib.AbstractContextManager[None]:
        """Do nothing."""
        return contextlib.nullcontext()


class Logger(logging.LoggerAdapter[logging.Logger]):
    """A plain logger with vLLM's few words beyond the usual."""

    def debug_once(self, message: str, *args: object, scope: str = "") -> None:
        """Log at debug level."""
        self.debug(message, *args)

    def info_once(self, message: str, *args: object, scope: str = "") -> None:
        """Log at info level."""
        self.info(message, *args)

    def warning_once(self, message: str, *args: object, scope: str = "") -> None:
        """Log at warning level."""
        self.warning(message, *args)


def modules() -> dict[str, dict[str, object]]:
    """Return every stand-in's contents by module name, with those that the queue needs."""
    found = stubs.modules()
    for name, contents in _more().items():
        found.setdefault(name, {}).update(contents)
    for name in list(found):
        _place(found, name)
    if importlib.util.find_spec("cloudpickle") is None:
        found["cloudpickle"] = {"dumps": _by_name, "loads": _by_name}
    return found


def _more() -> dict[str, dict[str, object]]:
    named: dict[str, dict[str, object]] = {
        name: {word: _empty(word) for word in words} for name, words in _NAMES.items()
    }
    wrapper: dict[str, object] = {"WorkerWrapperBase": WorkerWrapper}
    groups = ("dcp", "dp", "ep", "inner_dp_world", "pcp", "pp", "tp", "world")
    network: dict[str, object] = {
        "get_distributed_init_method": _init_method,
        "get_loopback_ip": lambda: "127.0.0.1",
        "get_file_store_init_method": _file_store,
        "aiter_requires_tcp_store": lambda: False,
    }
    system: dict[str, object] = {
        "_maybe_force_spawn": _nothing,
        "decorate_logs": _nothing,
        "set_process_title": _nothing,
        "get_mp_context": _no_context,
    }
    return {
        **named,
        "vllm.distributed": {
            "destroy_model_parallel": _nothing,
            "destroy_distributed_environment": _nothing,
        },
        "vllm.distributed.kv_transfer.kv_connector.utils": {
            "KVOutputAggregator": KVOutputAggregator
        },
        "vllm.distributed.parallel_state": {
            "model_parallel_is_initialized": lambda: False,
            **{f"get_{name}_group": Group for name in groups},
        },
        "vllm.envs": {"enable_envs_cache": _nothing},
        "vllm.executor.executor_base": {"ExecutorBase": ExecutorBase},
        "vllm.executor.multiproc_worker_utils": {
            "_add_prefix": _nothing,
            "set_multiprocessing_worker_envs": _one_thread,
        },
        "vllm.logger": {"init_logger": _logger, "configure_logging": _nothing},
        "vllm.multimodal.cache": {"worker_receiver_cache_from_config": _nothing},
        "vllm.platforms": {"current_platform": PoolPlatform()},
        "vllm.tracing": {"instrument": _untouched, "maybe_init_worker_tracer": _nothing},
        "vllm.utils": {**network, **system, "resolve_obj_by_qualname": _by_name},
        "vllm.utils.import_utils": {"resolve_obj_by_qualname": _by_name},
        "vllm.utils.network_utils": network,
        "vllm.utils.numa_utils": {
            "configure_subprocess": _around,
            "log_current_affinity_state": _nothing,
        },
        "vllm.utils.ompmultiprocessing": {"OMPProcessManager": OMPProcessManager},
        "vllm.utils.system_utils": system,
        "vllm.utils.torch_utils": {
            "OMP_NUM_THREADS_SET_BY_VLLM": "OMP_NUM_THREADS_SET_BY_VLLM",
            "set_torch_threads_for_runtime": _nothing,
            "startup_omp_num_threads": lambda _workers=1: 1,
        },
        "vllm.utils.watch_dog": {"get_watch_dog": WatchDog, "start_watch_dog": _nothing},
        "vllm.v1.executor.vllm_net_devices": {"set_worker_net_device": _nothing},
        "vllm.v1.worker.worker_base": named["vllm.v1.worker.worker_base"] | wrapper,
        "vllm.worker.worker_base": wrapper,
    }


def _place(found: dict[str, dict[str, object]], name: str) -> None:
    """Make every parent of a module a package."""
    while "." in name:
        name = name.rpartition(".")[0]
        found.setdefault(name, {}).setdefault("__path__", [])


def _empty(name: str) -> type:
    return type(name, (), {"__doc__": "Only a name."})


def _logger(name: str) -> Logger:
    return Logger(logging.getLogger(name), {})


def _one_thread(*_: object) -> None:
    """Set what vLLM's own sets where nothing else was set."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _nothing(*_: object, **__: object) -> None:
    """Stand for a function that does nothing here."""


@contextlib.contextmanager
def _around(*_: object, **__: object) -> Generator[None]:
    yield


def _untouched(**_: object) -> Callable[[_F], _F]:
    def same(function: _F) -> _F:
        return function

    return same


def _init_method(host: str, port: int) -> str:
    return stubs.tcp_uri(host, port)


def _file_store() -> str:
    return f"file://{stubs.base_path()}/{secrets.token_hex(8)}"


def _no_context() -> NoReturn:
    raise NotImplementedError("killpoint gives each pool its own context")


def _by_name(*_: object, **__: object) -> NoReturn:
    raise NotImplementedError("killpoint has methods called by name, never by what was pickled")
