"""Which files of the reference make up its parts, and what these stand on."""

from __future__ import annotations

from pathlib import Path

from killpoint.errors import BadUsage

AREAS: dict[str, tuple[str, ...]] = {
    "ring": (
        "ring/__init__.py",
        "ring/layout.py",
        "ring/memory.py",
        "ring/reader.py",
        "ring/ring.py",
        "ring/writer.py",
    ),
    "queue": (
        "base/buffer_pool.py",
        "base/cleanup.py",
        "base/event_waiter.py",
        "base/reentrancy.py",
        "base/serialization.py",
        "queue/",
        "ring/waiting.py",
    ),
    "group": ("group/",),
    "executor": ("executor/",),
    "pipe": (
        "pipe/__init__.py",
        "pipe/block_receiver.py",
        "pipe/blocks.py",
        "pipe/errors.py",
        "pipe/handshake.py",
        "pipe/link.py",
        "pipe/pipe.py",
        "pipe/protocol.py",
        "pipe/receiver.py",
        "pipe/rendezvous.py",
        "pipe/send_queue.py",
        "pipe/sender.py",
        "pipe/settings.py",
        "pipe/tensors.py",
        "pipe/wakeup.py",
        "pipe/transports/__init__.py",
        "pipe/transports/base.py",
        "pipe/transports/inline.py",
        "pipe/transports/select.py",
    ),
    "pipe-gpu": (
        "pipe/transports/cuda_ipc.py",
        "pipe/transports/device_copies.py",
        "pipe/transports/nccl.py",
    ),
    "transport": ("transport/",),
    "foundations": (
        "__init__.py",
        "base/__init__.py",
        "base/cache_line.py",
        "base/cancel.py",
        "base/clock.py",
        "base/endpoint.py",
        "base/fds.py",
        "base/frame_decoding.py",
        "base/liveness.py",
        "base/ownership.py",
        "base/security.py",
        "errors.py",
    ),
    "coordinator": ("coordinator/waves.py",),
    "coordinator-shell": (
        "coordinator/__init__.py",
        "coordinator/links.py",
        "coordinator/process.py",
        "coordinator/protocol.py",
        "coordinator/server.py",
    ),
    "engine": (
        "engine/__init__.py",
        "engine/errors.py",
        "engine/health.py",
        "engine/kv_worker_links.py",
        "engine/protocol.py",
        "engine/settings.py",
        "engine/core/__init__.py",
        "engine/core/blocks.py",
        "engine/core/core.py",
        "engine/core/kv_transfer_aggregator.py",
        "engine/core/scheduler.py",
        "engine/core/sequence.py",
        "engine/core/wave_allreduce.py",
        "engine/core/worker.py",
        "engine/front_end/__init__.py",
        "engine/front_end/replica_state.py",
        "engine/front_end/request_tracker.py",
        "engine/front_end/router.py",
        "engine/front_end/streams.py",
        "engine/model/__init__.py",
        "engine/model/arithmetic.py",
        "engine/model/batching.py",
        "engine/model/model.py",
        "engine/model/reference.py",
        "engine/model/size.py",
        "engine/model/tokens.py",
        "engine/model/weights.py",
        "engine/supervisor/__init__.py",
        "engine/supervisor/kv_links.py",
        "engine/supervisor/restart_policy.py",
    ),
    "engine-shells": (
        "engine/engine.py",
        "engine/loopback.py",
        "engine/core/process.py",
        "engine/core/start.py",
        "engine/core/worker_processes.py",
        "engine/core/worker_stepper.py",
        "engine/front_end/thread.py",
        "engine/supervisor/replica.py",
        "engine/supervisor/supervisor.py",
    ),
    "serving": ("serving/", "cli.py", "node_flags.py"),
}


def files_of(words: list[str], home: Path) -> dict[str, list[str]]:
    """The files that each word names: an area, a file of ``home``, or a folder of it.

    Raises:
        BadUsage: a word names nothing.
    """
    return {word: _expand(word, home) for word in words or list(AREAS)}


def _expand(word: str, home: Path) -> list[str]:
    files: list[str] = []
    for part in AREAS.get(word, (word,)):
        path = home / part
        if path.is_dir():
            files += sorted(str(found.relative_to(home)) for found in path.rglob("*.py"))
        elif path.is_file():
            files.append(part)
        else:
            expected = f"{', '.join(AREAS)}, or a file like group/store_group.py"
            raise BadUsage(f"no area or file {part!r}; expected {expected}")
    return files
