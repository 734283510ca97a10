"""Programs for a queue and all its readers at once, drawn by Hypothesis (H1).

What hand-written stories have one of, these have several of: readers of unequal pace, deadlines
that cross, a busy reader beside an idle one, calls that run out of time between others that do not.
Windows are small, so that every lap wraps. All calls have deadlines, and few may take long: a
program whose parties get nowhere ends within about 15 s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
from hypothesis import strategies as st

from killpoint.scenario import (
    AnyStep,
    Attach,
    Close,
    Fault,
    Make,
    Message,
    MessageKind,
    Pause,
    Ready,
    Receive,
    Scenario,
    Send,
    Wait,
)
from killpoint.systems.queue.boundary_fuzz import sizes
from killpoint.targets.shapes import QueueShape

Harm = Literal["none", "parties", "links"]
"""What befalls a program: nothing; a reader leaves, a party is stopped or killed; or connections of
remote readers are reset, or cut for a moment. In the latter two the writer may close its end."""

_SLOTS = (12, 1, 2, 3, 5)
"""Numbers of slots: at and below what one run of messages fills, and far above it."""
_SOON = (0.0, 0.02, 0.05, 0.1, 0.25)
"""Seconds that a call may take and often runs into."""
_LATE = 2.0
"""Seconds within which a send succeeds, if readers receive."""
_PATIENT_SENDS = 3
"""Most steps of a program whose sends may take so long, beside its last one."""
_DRAINED_AFTER, _MENDED_WITHIN = 0.25, 4.0
"""Seconds without a message after which a reader takes itself to have all; the latter where its
connection was harmed."""
_PAUSES = (0.01, 0.03, 0.08)
_PACES = (0.02, 0.05)
"""Seconds that a slow party takes between two calls."""
_CUTS = (0.1, 0.4, 2.4)
"""Seconds; of the last, at most one in a program, which bears ``_SILENCE``."""
_SILENCE = 4.0
"""Seconds, less than twice the longest cut: a party may try another connection meanwhile, whose
first words are overtaken by what the healed one carries."""
_LATENCY = 0.06
_AFTER_A_CUT = 1.8
"""Seconds for which a connection that came back is idle: it must be forgotten that it was gone."""
_LINK_FAULTS = 2
_ENDED_WITHIN = 11.0
_BAD = 2
"""Most messages of a program that cannot be encoded, or not decoded."""
_BAD_KINDS: tuple[MessageKind, ...] = ("unencodable", "undecodable")
_MANY = Message("array", 20_000, repeat=34)
"""More arrays of a size than a pool of buffers may keep: each reader holds them all. In the widest
chunks they go inline."""

_USUAL = (
    *(["send"] * 6 + ["receive"] * 8 + ["wait"] * 3 + ["pause"] * 2),
    *(
        ["poll"] * 2
        + ["rush"] * 2
        + ["slow"] * 2
        + ["rest"]
        + ["outrun"] * 2
        + ["bad"] * 2
        + ["many"]
    ),
)
_ACTS: dict[Harm, tuple[str, ...]] = {
    "none": _USUAL,
    "parties": (*_USUAL, *(["strike"] * 3), *(["leave"] * 2)),
    "links": (*_USUAL, *(["harm"] * 2)),
}


_YES_OR_NO = st.sampled_from((True, False))
"""Yes first: the first programs are the simplest ones, and are to close all the same."""


@st.composite
def programs(
    draw: st.DrawFn, case: str, seed: int, *, remote: bool = False, harm: Harm = "none"
) -> Scenario:
    """A program of sends and receives that overlap; then every reader takes what is left.

    Args:
        remote: whether some readers are reached over TCP.
    """
    readers = draw(st.integers(2, 4) if remote else st.integers(1, 5))
    shape = QueueShape(
        readers=readers,
        chunk_bytes=draw(st.sampled_from((128, 1024, 65_536))),
        chunks=draw(st.sampled_from(_SLOTS)),
        remote=min(readers, draw(st.sampled_from((2, 1, 3)))) if remote else 0,
    )
    program = _Program(draw, shape, harm)
    count = draw(st.integers(1, 20))
    for place in range(count):
        if place == 0:
            program.act("outrun" if remote else "rush")
        if place == count // 3 and harm == "links":
            program.act("harm")
        if place == count // 3 and harm == "parties" and draw(_YES_OR_NO):
            program.act("leave")
        program.act(draw(st.sampled_from(_ACTS[harm])))
    program.end()
    if program.is_cut_for_long:
        shape = msgspec.structs.replace(shape, silence=_SILENCE)
    return Scenario(case, [case.split("/")[0]], program.steps, shape=shape, seed=seed)


class _Program:
    """The steps drawn so far, and what they lead to."""

    def __init__(self, draw: st.DrawFn, shape: QueueShape, harm: Harm) -> None:
        self.steps: list[AnyStep] = [Make(), Attach(), Ready(timeout=10.0), Wait(within=20.0)]
        self._draw, self._shape, self._harm = draw, shape, harm
        self._readers = shape.roles()[1:]
        self._gone: set[str] = set()
        self._slow: set[str] = set()
        self._resting: set[str] = set()
        self._asked = self._patient = self._bad = self._harmed = 0
        self._many = self._reset = False
        self.is_cut_for_long = False
        self._acts: dict[str, Callable[[], None]] = {
            "send": self._send,
            "receive": self._receive,
            "poll": self._poll,
            "rush": self._rush,
            "bad": self._send_bad,
            "many": self._send_many,
            "leave": self._leave,
            "wait": self._wait,
            "pause": lambda: self.steps.append(Pause(draw(st.sampled_from(_PAUSES)))),
            "slow": self._slow_down,
            "rest": self._rest,
            "outrun": self._outrun,
            "strike": self._strike,
            "harm": self._harm_links,
        }

    def act(self, name: str) -> None:
        """Add the steps of one act, if it can be done now."""
        self._acts[name]()

    def end(self) -> None:
        """Let every party go on as fast as it can; then each reader takes what is left to it."""
        draw = self._draw
        self.steps += [Fault("slow", role, pause=0.0) for role in sorted(self._slow - self._gone)]
        if alive := self._alive():  # begun together: who ends first would hold the others up
            self.steps.append(Wait(alive, within=_ENDED_WITHIN))
        if self._harmed:
            self.steps.append(Pause(_AFTER_A_CUT))
        if "writer" not in self._gone:
            if self._harm == "links":
                self._receive_rest(_DRAINED_AFTER)
                self.steps.append(Wait(within=_ENDED_WITHIN))
            last = draw(st.lists(_messages(self._shape.chunk_bytes), min_size=1, max_size=3))
            if self._harm != "none" and draw(_YES_OR_NO):
                self._close(last)
            else:
                self._post(Send(last, timeout=_LATE))
        if self._harmed and "writer" in self._gone:
            self._receive_rest(_MENDED_WITHIN)
        self._receive_rest(_DRAINED_AFTER)
        self.steps.append(Wait(within=_ENDED_WITHIN))

    def _close(self, last: list[Message]) -> None:
        """Close the writer's end while what it sent last is on its way, on a link that is harmed.

        No reader receives meanwhile, so that no more is sent than there are slots.
        """
        if self._harm != "links":
            self._post(Send(last, timeout=_LATE))
        else:
            if self._draw(_YES_OR_NO):
                self.steps.append(Fault("delay", "writer", pause=_LATENCY))
            fitting = [msgspec.structs.replace(each, repeat=1) for each in last]
            self._post(Send(fitting[: self._shape.chunks], timeout=_LATE))
            self.steps.append(Wait(("writer",), within=_ENDED_WITHIN))
            self._harm_link()
        self._gone.add("writer")
        self.steps.append(Close(("writer",)))

    def _receive_rest(self, within: float) -> None:
        alive = self._alive()
        if alive:
            rest = Receive(self._asked + 1, alive, timeout=within)
            self.steps += [rest] if within > _DRAINED_AFTER else [rest] * (1 + self._bad)

    def _alive(self) -> tuple[str, ...]:
        return tuple(name for name in self._readers if name not in self._gone)

    def _busy(self) -> tuple[str, ...]:
        return tuple(name for name in self._alive() if name not in self._resting)

    def _some(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))

    # -- messages ---------------------------------------------------------------------------

    def _post(self, step: Send) -> None:
        self._asked += sum(message.repeat for message in step.messages)
        self.steps.append(step)

    def _may_wait(self) -> bool:
        self._patient += 1
        return self._patient <= _PATIENT_SENDS

    def _send(self) -> None:
        draw = self._draw
        if "writer" in self._gone:
            return
        batch = draw(st.lists(_messages(self._shape.chunk_bytes), min_size=1, max_size=3))
        timeout = draw(st.sampled_from((*_SOON, _LATE)))
        if timeout == _LATE and not self._may_wait():
            timeout = _SOON[2]
        self._post(Send(batch, timeout=timeout, keep_on=timeout != _LATE))

    def _send_bad(self) -> None:
        """Send a message that fails where it is encoded or decoded, and at once another one."""
        if "writer" in self._gone or self._bad >= _BAD or not self._may_wait():
            return
        self._bad += 1
        sized = st.one_of(st.just(20_000), sizes(self._shape.chunk_bytes))
        bad = st.builds(Message, kind=st.sampled_from(_BAD_KINDS), size=sized)
        pair = [self._draw(bad), self._draw(_messages(self._shape.chunk_bytes))]
        self._post(Send(pair, timeout=_LATE, keep_on=True))

    def _send_many(self) -> None:
        if "writer" in self._gone or self._many or not self._may_wait():
            return
        self._many = True
        self._post(Send([_MANY], timeout=_LATE))

    def _receive(self) -> None:
        draw = self._draw
        if busy := self._busy():
            count, timeout = draw(st.sampled_from((1, 2, 4, 12))), draw(st.sampled_from(_SOON))
            self.steps.append(Receive(count, self._some(busy), timeout=timeout, keep_on=count < 5))

    def _poll(self) -> None:
        """Receive again and again without waiting."""
        if brisk := tuple(name for name in self._busy() if name not in self._slow):
            count = self._draw(st.sampled_from((4, 30, 100)))
            self.steps.append(Receive(count, self._some(brisk), timeout=0.0, keep_on=True))

    def _rush(self) -> None:
        """Receive without waiting while messages that fit in no slot are on their way."""
        if "writer" not in self._gone:
            size = self._draw(st.sampled_from((1, 4))) * self._shape.chunk_bytes
            kind = self._draw(st.sampled_from(("bytes", "array")))
            timeout = self._draw(st.sampled_from(_SOON[1:]))
            self._post(Send([Message(kind, size, repeat=5)], timeout=timeout, keep_on=True))
            if brisk := tuple(name for name in self._busy() if name not in self._slow):
                self.steps.append(Receive(100, brisk, timeout=0.0, keep_on=True))

    # -- what the parties do besides --------------------------------------------------------

    def _wait(self) -> None:
        # A send that may take its time needs readers that are yet to be told to receive.
        who = self._readers if self._patient else ["writer", *self._readers]
        self.steps.append(Wait(self._some(tuple(who)), within=_ENDED_WITHIN))

    def _slow_down(self) -> None:
        role = self._draw(st.sampled_from(("writer", *self._readers)))
        if role not in self._gone:
            self._set_pace(role)

    def _set_pace(self, role: str) -> None:
        self._slow.add(role)
        self.steps.append(Fault("slow", role, pause=self._draw(st.sampled_from(_PACES))))

    def _rest(self) -> None:
        """Let some readers receive nothing until others rest: those are then far ahead of them."""
        self._resting = set(self._draw(st.lists(st.sampled_from(self._readers), max_size=2)))

    def _outrun(self) -> None:
        """Let the writer fill its window, while one reader takes its time and all others rest.

        Before that they take what there is, so that the window is empty.
        """
        draw, alive = self._draw, self._alive()
        if "writer" in self._gone or not alive:
            return
        if self._asked:
            self.steps.append(Receive(2 * self._shape.chunks, alive, timeout=_SOON[2]))
            self.steps.append(Wait(alive, within=_ENDED_WITHIN))
        slow = draw(st.sampled_from(alive))
        self._resting = set(alive) - {slow}
        self._set_pace(slow)
        run = Message(size=draw(sizes(self._shape.chunk_bytes)), repeat=self._shape.chunks + 1)
        self._post(Send([run], timeout=draw(st.sampled_from(_SOON[:-3:-1])), keep_on=True))
        self.steps.append(Receive(12, (slow,), timeout=_SOON[-1]))
        if not self._patient:  # else the writer may have to wait for those that rest
            self.steps.append(Wait((slow, "writer"), within=_ENDED_WITHIN))

    def _leave(self) -> None:
        """Let one reader leave, and the writer fill its window while all others take their time."""
        alive = self._alive()
        if len(alive) < 2:
            return
        leaver = self._draw(st.sampled_from(alive))
        self._gone.add(leaver)
        self.steps.append(Close((leaver,)))
        if "writer" not in self._gone:
            self._resting = set()
            for reader in self._alive():
                self._set_pace(reader)
            run = Message(size=8, repeat=self._shape.chunks + 2)
            timeout = _LATE if self._may_wait() else _SOON[-1]
            self._post(Send([run], timeout=timeout, keep_on=True))
            count = 2 * self._shape.chunks + 2  # what was there before, and all of these
            self.steps.append(Receive(count, self._alive(), timeout=_SOON[-1]))

    def _strike(self) -> None:
        """Stop a party for a moment; or kill it, if all are there."""
        role = self._draw(st.sampled_from(("writer", *self._readers)))
        if self._gone:
            return
        if self._draw(st.booleans()):
            self._gone.add(role)
            self.steps.append(Fault("kill", role))
            return
        pause = Pause(self._draw(st.sampled_from(_PAUSES)))
        self.steps += [Fault("stop", role), pause, Fault("continue", role)]

    def _harm_links(self) -> None:
        if self._harmed < _LINK_FAULTS:
            self._harm_link()

    def _harm_link(self) -> None:
        """Harm a remote reader's connections, or all, so that they come back by themselves."""
        self._harmed += 1
        role = self._draw(st.sampled_from(("writer", *self._shape.connecting())))
        how = self._draw(st.sampled_from(("reset", "cut")))
        if how == "reset":
            self._reset = True
            self.steps.append(Fault("reset", role))
        else:
            self._cut(role)

    def _cut(self, role: str) -> None:
        """Cut a party off for a while; not for long right after a reset, or it looks dead."""
        seconds = self._draw(st.sampled_from(_CUTS))
        is_long = seconds == _CUTS[-1] and not (self._reset or self.is_cut_for_long)
        self.steps.append(Fault("cut", role))
        if is_long:
            self.is_cut_for_long = True
            self._send()
        elif seconds == _CUTS[-1]:
            seconds = _CUTS[0]
        self.steps += [Pause(seconds), Fault("heal", role)]


def _messages(chunk_bytes: int) -> st.SearchStrategy[Message]:
    """Draw one message, or a run of them, of a size around the boundary."""
    kinds = st.sampled_from(("bytes", "array", "nested", "arrays"))
    return st.builds(
        Message, kind=kinds, size=sizes(chunk_bytes), repeat=st.sampled_from((1, 1, 2, 5))
    )
