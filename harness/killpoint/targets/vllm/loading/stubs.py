"""Stand-ins of our own for the few things that vLLM's queue takes from the rest of vLLM.

Any other name does not exist: asking for it fails with an error that names it.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import ipaddress
import logging
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from packaging.version import Version

from killpoint.targets.vllm.sources import PACKAGE


def base_path() -> str:
    """Return the folder for sockets: Python keeps its first answer, but a role may have its own."""
    chosen = os.environ.get("VLLM_RPC_BASE_PATH") or os.environ.get("TMPDIR")
    return chosen if chosen and Path(chosen).is_dir() else tempfile.gettempdir()


def _whole(variable: str, default: int) -> int:
    return int(os.environ.get(variable) or default)


_VARIABLES: Mapping[str, Callable[[], object]] = {
    "VLLM_RINGBUFFER_WARNING_INTERVAL": lambda: _whole("VLLM_RINGBUFFER_WARNING_INTERVAL", 60),
    "VLLM_SLEEP_WHEN_IDLE": lambda: bool(_whole("VLLM_SLEEP_WHEN_IDLE", 0)),
    "VLLM_USE_SPINLOOP_EXT": lambda: False,
    "VLLM_RPC_BASE_PATH": base_path,
    "VLLM_MQ_MAX_CHUNK_BYTES_MB": lambda: _whole("VLLM_MQ_MAX_CHUNK_BYTES_MB", 16),
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": lambda: _whole("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", 300),
    "VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS": lambda: _whole(
        "VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS", 5
    ),
    "VLLM_ELASTIC_EP_SCALE_UP_LAUNCH": lambda: False,
}
"""Variables of ``vllm.envs``, read anew each time; the defaults are the releases' own."""

NOTES = (
    "vllm.envs: the queue's own variables are honoured, with the releases' defaults",
    "vllm.envs: VLLM_USE_SPINLOOP_EXT is always off (native code; off by default in vLLM too)",
    "vllm.logger: plain logging, without vLLM's formatting",
    "vllm.utils: socket paths, ports and addresses are chosen by killpoint, all on this machine",
    "vllm.utils.cpu_resource_utils: the check of the control group's memory does nothing",
    "vllm.distributed.utils: vLLM's own where the release has a stateless process group in it;"
    " else sched_yield is the system call, and process groups are absent",
    "vllm.utils.system_utils: suppress_stdout does nothing",
    "vllm.platforms: a platform without accelerators",
    "simulated: shared memory, the fence's lock, sched_yield, time, and zmq's contexts and pollers",
)
"""Parts that were replaced or switched off, for reports."""


class StandIn(ModuleType):
    """Module that has what it was given, and raises an error that names anything else."""

    def __init__(self, name: str, contents: Mapping[str, object]) -> None:
        super().__init__(name, "A stand-in made by killpoint.")
        self.__dict__.update(contents)

    def __getattr__(self, name: str) -> object:
        if self.__name__ == "vllm.envs" and name in _VARIABLES:
            return _VARIABLES[name]()
        raise AttributeError(f"killpoint has no stand-in for {self.__name__}.{name}", name=name)


class Platform:
    """A machine without accelerators."""

    def is_cuda_alike(self) -> bool:
        """Return False: the queue then pins no memory."""
        return False

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"killpoint has no stand-in for current_platform.{name}", name=name)


class StatelessProcessGroup:
    """Name for a type test: the queue is never built over a group here."""

    def __init__(self) -> None:
        raise NotImplementedError("killpoint has no stand-in for vLLM's stateless process group")


def modules() -> dict[str, dict[str, object]]:
    """Return every stand-in's contents, by module name."""
    network: dict[str, object] = {
        "get_ip": lambda: "127.0.0.1",
        "get_open_port": open_port,
        "get_open_zmq_ipc_path": ipc_path,
        "get_open_zmq_inproc_path": inproc_path,
        "is_valid_ipv6_address": is_ipv6,
        "get_tcp_uri": tcp_uri,
    }
    torch_kin: dict[str, object] = {"is_torch_equal_or_newer": is_torch_equal_or_newer}
    parents = PACKAGE.split(".")
    packages = [".".join(parents[: count + 1]) for count in range(len(parents))]
    return {
        **{name: {"__path__": []} for name in packages},
        "vllm.envs": {},
        "vllm.logger": {"init_logger": logging.getLogger},
        "vllm.utils": {"__path__": [], **network, **torch_kin},
        "vllm.utils.network_utils": network,
        "vllm.utils.torch_utils": torch_kin,
        "vllm.utils.system_utils": {"suppress_stdout": contextlib.nullcontext},
        "vllm.utils.cpu_resource_utils": {"check_cgroup_memory_available": _no_check},
        "vllm.distributed.utils": {
            "StatelessProcessGroup": StatelessProcessGroup,
            "sched_yield": os.sched_yield,
        },
        "vllm.platforms": {"current_platform": Platform()},
    }


def ipc_path() -> str:
    """Return an unused socket path, in the folder for temporary files as it is now."""
    return f"ipc://{base_path()}/{secrets.token_hex(8)}"


def inproc_path() -> str:
    """Return a name for a socket inside this process."""
    return f"inproc://{secrets.token_hex(8)}"


def open_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tcp_uri(host: str, port: int) -> str:
    """Return the address as torch writes it."""
    return f"tcp://[{host}]:{port}" if is_ipv6(host) else f"tcp://{host}:{port}"


def is_torch_equal_or_newer(least: str) -> bool:
    """Return whether the torch that is installed here is at least this release."""
    return Version(importlib.metadata.version("torch")) >= Version(least)


def is_ipv6(text: str) -> bool:
    """Return whether the text is an IPv6 address."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _no_check(required_bytes: int, allocation_name: str) -> None:
    del required_bytes, allocation_name
