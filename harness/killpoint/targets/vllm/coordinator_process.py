"""vLLM's coordinator, unmodified, in a process of its own: capability ``coordinator_process``."""

from __future__ import annotations

import contextlib
import inspect
import multiprocessing
import select
import shutil
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import zmq

from killpoint.targets.coordinator_messages import Published, Started
from killpoint.targets.coordinator_protocol import CoordinatorShape, Heard, Saying, Times
from killpoint.targets.malformed_frames import DEEP, NOT_TEXT, fuzzed
from killpoint.targets.protocol import UnsupportedByTarget
from killpoint.targets.vllm.coordinator import Outputs, Stats, served
from killpoint.targets.vllm.sources import COORDINATOR, Sources

NOTES = (
    "coordinator as a process: forked; its sockets are made, and messages to it encoded, by"
    " stand-ins; its parent learns of its end by the process alone; who watches the"
    " processes of one machine (the front end's monitor) is not there, so that their deaths are not"
    " asked about",
)
_TIMES = Times(0.1, 5.0)
_LEAVING = 5.0
_WHERE = ("states", "reports", "starts")


@dataclass
class Running:
    """Coordinator that was started."""

    process: Any
    folder: Path
    addresses: list[str]


class _Link:
    """Link of an engine, or of a front end."""

    def __init__(self, addresses: list[str], rank: int | None) -> None:
        self.rank = rank
        self.step = 0
        self.context: zmq.Context[Any] = zmq.Context(io_threads=1)
        states, reports, starts = addresses
        self.down: Any = self.context.socket(zmq.XSUB)
        self.down.connect(states if rank is None else starts)
        self.down.send(b"\1")
        self.up: Any = None if rank is None else self.context.socket(zmq.PUSH)
        if self.up is not None:
            self.up.connect(reports)


class VllmCoordinatorProcesses:
    """The adapter's half for coordinators as processes."""

    sources: Sources
    engines_begin = True

    def coordinator_start(self, shape: CoordinatorShape, timeout: float | None) -> Running:
        """Fork it; its sockets are bound by the time a peer connects, or soon after."""
        del timeout
        module = served(self.sources, self.sources.root / COORDINATOR, _bound)
        made = getattr(module, "DPCoordinatorProc", None) or module.CoordinatorProc
        folder = Path(tempfile.mkdtemp(prefix="coordinator-"))
        addresses = _addresses(shape.host, folder)
        states, reports, starts = addresses
        run: Callable[..., object] = made.run_coordinator
        known = {
            "engine_count": shape.engines,
            "front_publish_address": states,
            "back_output_address": reports,
            "back_publish_address": starts,
        }
        if not {*known} <= {*inspect.signature(run).parameters}:
            raise UnsupportedByTarget("its process takes other arguments")
        context = multiprocessing.get_context("fork")
        process = context.Process(target=run, kwargs=known, daemon=True)
        process.start()
        return Running(process, folder, addresses)

    def coordinator_pid(self, end: Running) -> int:
        """Return the pid of its process."""
        return int(end.process.pid)

    def coordinator_handle(self, end: Running) -> list[str]:
        """Return the addresses of its sockets."""
        return end.addresses

    def coordinator_gone(self, end: Running) -> bool:
        """Return whether its sentinel is readable."""
        return bool(select.select([end.process.sentinel], [], [], 0.0)[0])

    def coordinator_close(self, end: Running) -> None:
        """End it as its own parent does: SIGTERM, then SIGKILL."""
        end.process.terminate()
        end.process.join(_LEAVING)
        if end.process.is_alive():
            end.process.kill()
            end.process.join()
        shutil.rmtree(end.folder, ignore_errors=True)

    def coordinator_times(self) -> Times:
        """Return its intervals: 100 ms after a change, 5 s otherwise."""
        return _TIMES

    def engine_link(self, handle: list[str], rank: int) -> _Link:
        """Make a subscription to all, and a socket for reports."""
        return _Link(handle, rank)

    def front_end_link(self, handle: list[str]) -> _Link:
        """Make a subscription to all, which also carries a front end's messages."""
        return _Link(handle, None)

    def engine_says(self, link: _Link, saying: Saying) -> bool:
        """Send counts with the number of a step, or a wave that it has begun or ended."""
        if saying.broke is not None:
            raise UnsupportedByTarget("its engines cannot say that a wave broke")
        link.step += 1
        stats = None
        if saying.counts is not None:
            stats = Stats(*saying.counts, step_counter=link.step)
        said = Outputs(
            link.rank or 0,
            scheduler_stats=stats,
            wave_complete=saying.done,
            start_wave=saying.wants,
        )
        return _sent(link.up, msgspec.msgpack.encode(said))

    def front_end_scales(self, link: _Link, engines: int) -> None:
        """Send ``SCALE_ELASTIC_EP``."""
        link.down.send(msgspec.msgpack.encode(("SCALE_ELASTIC_EP", engines)))

    def link_hears(self, link: _Link, seconds: float) -> Heard | None:
        """Return the next start or publication; ``READY`` is neither."""
        if not link.down.poll(max(0.0, seconds) * 1000):
            return None
        parts: list[bytes] = link.down.recv_multipart()
        if link.rank is None:
            raw, wave, running = msgspec.msgpack.decode(parts[0])
            if raw is None:  # a wave has begun or ended: counts are as they were
                return Published(wave, running)
            return Published(wave, running, tuple((int(each[0]), int(each[1])) for each in raw))
        if len(parts) != 2:
            return None
        wave, excluded = msgspec.msgpack.decode(parts[1])
        return Started(wave, excluded)

    def link_beats(self, link: _Link) -> None:
        """Do nothing: vLLM has no such sign of life."""

    def link_lost(self, link: _Link) -> bool:
        """Return False: peers are not told that it is gone."""
        del link
        return False

    def link_close(self, link: _Link) -> None:
        """Close the link."""
        link.context.destroy(linger=0)

    # -- what makes no sense ----------------------------------------------------------------------

    def engine_forges(self, link: _Link, lie: str, counts: tuple[int, int]) -> bool:
        """Send a frame to the socket for reports, or a subscription."""
        if lie == "nobodys-topic":
            link.down.send(b"\1nobody")
            return False
        link.step += 1
        rank, stats = link.rank or 0, Stats(*counts, step_counter=link.step)
        fields: dict[str, list[Any]] = {
            "wrong-type": [rank, [], stats, None, None, "soon"],
            "far-wave": [rank, [], stats, None, 1 << 40, None],
            "huge-number": [rank, [], stats, None, None, 1 << 62],
            "unknown-tag": ["?", rank, [], stats],
            "negative-counts": [rank, [], Stats(-1, -1, step_counter=link.step)],
            "unknown-rank": [1 << 20, [], stats],
        }
        whole = msgspec.msgpack.encode(fields.get(lie, fields["unknown-tag"]))
        frames = {
            "empty": [b""],
            "truncated": [whole[: len(whole) // 2]],
            "not-a-message": [b"\xc1\xff not MessagePack"],
            "not-text": [NOT_TEXT],
            "deep": [DEEP],
            "several-frames": [b"", whole, b"\xff" * 100],
        }.get(lie, [whole])
        if lie == "fuzzed":
            good = msgspec.msgpack.encode(Outputs(rank, scheduler_stats=stats))
            for mutant in fuzzed(good):
                _sent(link.up, mutant)
            return False
        return _sent(link.up, *frames) and lie in ("wrong-type", "far-wave", "huge-number")

    def front_end_forges(self, link: _Link, lie: str) -> None:
        """Send a frame up its subscription."""
        whole = msgspec.msgpack.encode(("SCALE_ELASTIC_EP", 2))
        frames = {
            "empty": b"",
            "truncated": whole[:-1],
            "not-a-message": b"\xc1\xff not MessagePack",
            "not-text": NOT_TEXT,
            "deep": DEEP,
            "unknown-tag": msgspec.msgpack.encode(("SCALE_NOTHING", 2)),
            "wrong-type": msgspec.msgpack.encode(("SCALE_ELASTIC_EP", "two")),
            "scale-0": msgspec.msgpack.encode(("SCALE_ELASTIC_EP", 0)),
        }
        if lie == "fuzzed":
            for mutant in fuzzed(whole):
                link.down.send(mutant)
        elif lie in frames:
            link.down.send(frames[lie])
        else:
            raise UnsupportedByTarget(f"no front end's message of its own is {lie}")


def _addresses(host: str, folder: Path) -> list[str]:
    """Return the addresses of its states, reports and starts: over TCP for other hosts."""
    if not host:
        return [f"ipc://{folder}/{name}" for name in _WHERE]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as taken:
        found = [taken.enter_context(socket.socket(family)) for _ in _WHERE]
        for each in found:
            each.bind((host, 0))
        shown = f"[{host}]" if ":" in host else host
        return [f"tcp://{shown}:{each.getsockname()[1]}" for each in found]


def _bound(path: str, ctx: Any, socket_type: int, **_: object) -> Any:
    """Stand in for its ``make_zmq_socket``, for addresses of this machine."""
    made = ctx.socket(socket_type)
    made.setsockopt(zmq.LINGER, 0)
    if socket_type == zmq.XPUB:
        made.setsockopt(zmq.XPUB_VERBOSE, 1)  # it counts subscriptions, equal ones too
    made.bind(path)
    return made


def _sent(line: Any, *frames: bytes) -> bool:
    try:
        line.send_multipart(list(frames), zmq.NOBLOCK)
    except zmq.Again:
        return False
    return True
