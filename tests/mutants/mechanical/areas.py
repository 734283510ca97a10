"""Which files of the reference make up its parts, and what these stand on."""

from __future__ import annotations

from pathlib import Path

from killpoint.errors import BadUsage

AREAS: dict[str, tuple[str, ...]] = {
    "ring": (
        "ring.py",
        "writing.py",
        "reading.py",
        "fence.py",
        "layout.py",
        "cells.py",
        "memory.py",
    ),
    "queue": (
        "queue.py",
        "sending.py",
        "receiving.py",
        "taking.py",
        "retrial.py",
        "encoding.py",
        "pickling.py",
        "reducers.py",
        "fragments.py",
        "overflow.py",
        "local_readers.py",
        "remote_readers.py",
        "remote_receiving.py",
        "door.py",
        "rendezvous.py",
        "guard.py",
        "vigil.py",
        "post.py",
        "recycling.py",
        "warmth.py",
        "waiting/",
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
        "pipe/shelf.py",
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
    "lines": ("lines/",),
    "foundations": (
        "__init__.py",
        "cancel.py",
        "clock.py",
        "descriptors.py",
        "end.py",
        "errors.py",
        "handle.py",
        "keeping.py",
        "liveness.py",
        "over_group.py",
        "ownership.py",
        "malformed.py",
        "security.py",
        "settings.py",
        "slots.py",
    ),
    "coordinator": (
        "coordinator/coordinator_wave.py",
        "coordinator/engine_wave.py",
        "coordinator/front_end_wave.py",
    ),
    "coordinator-shell": (
        "coordinator/__init__.py",
        "coordinator/links.py",
        "coordinator/loop.py",
        "coordinator/messages.py",
        "coordinator/presence.py",
        "coordinator/process.py",
        "coordinator/publication.py",
        "coordinator/sockets.py",
        "coordinator/wire.py",
    ),
    "engine": (
        "engine/__init__.py",
        "engine/admission.py",
        "engine/agreement.py",
        "engine/alone.py",
        "engine/batch.py",
        "engine/blocks.py",
        "engine/choice.py",
        "engine/core.py",
        "engine/errors.py",
        "engine/exact.py",
        "engine/front_end.py",
        "engine/health.py",
        "engine/kv_links.py",
        "engine/layout.py",
        "engine/messages.py",
        "engine/model.py",
        "engine/model_size.py",
        "engine/pairing.py",
        "engine/replica_book.py",
        "engine/request.py",
        "engine/roster.py",
        "engine/scheduler.py",
        "engine/served.py",
        "engine/settings.py",
        "engine/stream.py",
        "engine/tally.py",
        "engine/tokens.py",
        "engine/weights.py",
        "engine/wire.py",
        "engine/worker.py",
    ),
    "engine-shells": (
        "engine/core_process.py",
        "engine/desk.py",
        "engine/engine.py",
        "engine/loopback.py",
        "engine/replica.py",
        "engine/stepper.py",
        "engine/supervisor.py",
        "engine/worker_processes.py",
    ),
    "serving": ("serving/", "cli.py", "engine_flags.py"),
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
