"""The reference's coordinator as capability ``coordinator_process``."""

from __future__ import annotations

import contextlib
import os
import select
from typing import Any

import msgspec
import zmq

from killpoint.targets.coordinator_messages import Published, Started
from killpoint.targets.coordinator_protocol import CoordinatorShape, Heard, Saying, Times
from killpoint.targets.malformed_frames import DEEP, NOT_TEXT, fuzzed
from killpoint.targets.protocol import UnsupportedByTarget
from refengine.base.security import Keys
from refengine.coordinator import (
    Addresses,
    Coordinator,
    CoordinatorSettings,
    EngineLink,
    EngineWave,
    FrontEndLink,
    Report,
    Start,
)

_SETTINGS = CoordinatorSettings()
_HUGE = 2**63
_START = 30.0


class CoordinatorProcessOfRefengine:
    """The part of the adapter that a coordinator's parent and its peers need."""

    engines_begin = False

    def coordinator_start(self, shape: CoordinatorShape, timeout: float | None) -> Coordinator:
        """Start a coordinator; it listens when this returns."""
        keys = Keys(os.urandom(32)) if shape.host else None
        seconds = _START if timeout is None else timeout
        return Coordinator(shape.engines, host=shape.host, keys=keys, timeout=seconds)

    def coordinator_pid(self, end: Coordinator) -> int:
        """Return its child's pid."""
        return end.pid

    def coordinator_handle(self, end: Coordinator) -> Addresses:
        """Return its addresses."""
        return end.addresses

    def coordinator_gone(self, end: Coordinator) -> bool:
        """Return whether its sentinel is readable."""
        return bool(select.select([end.sentinel], [], [], 0.0)[0])

    def coordinator_close(self, end: Coordinator) -> None:
        """Close it cleanly."""
        end.close()

    def coordinator_times(self) -> Times:
        """Return the intervals of its default settings."""
        return Times(_SETTINGS.interval, _SETTINGS.idle)

    def engine_link(self, handle: Addresses, rank: int) -> EngineLink:
        """Make a replica's link."""
        return EngineLink(handle, rank)

    def front_end_link(self, handle: Addresses) -> FrontEndLink:
        """Make a front end's link."""
        return FrontEndLink(handle)

    def engine_says(self, link: EngineLink, saying: Saying) -> bool:
        """Send all of it in one report."""
        report = Report(
            link.rank,
            wants=saying.wants,
            work=saying.wants is not None,
            done=saying.done,
            broke=saying.broke,
            lost=saying.lost,
            counts=saying.counts,
        )
        try:
            link.send([report])
        except zmq.Again:
            return False
        return True

    def engine_reports_end(self, rank: int, wave: int, members: tuple[int, ...]) -> bool:
        """Ask a replica's own half of the protocol."""
        replica = EngineWave(rank)
        replica.hear(Start(wave, members))
        return any(report.done == wave for report in replica.agreed(anyone_unfinished=False))

    def front_end_scales(self, link: FrontEndLink, engines: int) -> None:
        """Ask for so many engines from the next wave on."""
        link.scale(engines)

    def link_hears(self, link: EngineLink | FrontEndLink, seconds: float) -> Heard | None:
        """Return the next start or state."""
        found = link.hear(seconds)
        if found is None:
            return None
        if isinstance(found, Start):
            return Started(found.wave, members=found.members)
        return Published(found.wave, found.running, found.counts)

    def link_beats(self, link: EngineLink | FrontEndLink) -> None:
        """Send an empty report; front ends send none."""
        if isinstance(link, EngineLink):
            self.engine_says(link, Saying())

    def link_lost(self, link: EngineLink | FrontEndLink) -> bool:
        """Return whether the coordinator has been silent for too long."""
        return link.silent_for() > _SETTINGS.peer_timeout

    def link_close(self, link: EngineLink | FrontEndLink) -> None:
        """Close the link."""
        link.close()

    # -- what makes no sense ----------------------------------------------------------------------

    def engine_forges(self, link: EngineLink, lie: str, counts: tuple[int, int]) -> bool:
        """Send a frame to the reports' socket, or a subscription."""
        inside: Any = link  # a broken engine has the same sockets, and says what it likes
        if lie == "nobodys-topic":
            for topic in (b"rx", b"r99999999", b"r-1", b""):
                inside._starts.subscribe(topic)
            return False
        rank = link.rank
        fields = dict[str, list[Any]](
            {
                "wrong-type": ["report", rank, "soon", False, None, None, [], counts],
                "far-wave": ["report", rank, None, False, _HUGE - 1, 1 << 40, [], counts],
                "huge-number": ["report", rank, 1 << 62, True, None, None, [], counts],
                "unknown-tag": ["raport", rank, None, False, None, None, [], counts],
                "negative-counts": ["report", rank, None, False, None, None, [], [-1, -1]],
                "unknown-rank": ["report", 1 << 40, 0, True, 0, 0, [], counts],
            }
        )
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
            for mutant in fuzzed(msgspec.msgpack.encode(Report(rank, counts=counts))):
                with contextlib.suppress(zmq.Again):
                    inside._reports.send(mutant, zmq.NOBLOCK)
            return False
        try:
            inside._reports.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return lie in ("wrong-type", "far-wave", "huge-number")

    def front_end_forges(self, link: FrontEndLink, lie: str) -> None:
        """Send a frame up the subscription."""
        whole = msgspec.msgpack.encode(["scale", 2])
        frame = {
            "empty": b"",
            "truncated": whole[:-1],
            "not-a-message": b"\xc1\xff not MessagePack",
            "not-text": NOT_TEXT,
            "deep": DEEP,
            "unknown-tag": msgspec.msgpack.encode(["scala", 2]),
            "wrong-type": msgspec.msgpack.encode(["scale", "two"]),
            "scale-0": msgspec.msgpack.encode(["scale", 0]),
            "scale-huge": msgspec.msgpack.encode(["scale", 1 << 40]),
        }.get(lie)
        if frame is None and lie != "fuzzed":
            raise UnsupportedByTarget(f"no front end's message is {lie}")
        inside: Any = link
        for each in fuzzed(whole) if lie == "fuzzed" else [frame]:
            inside._states.send(each)
