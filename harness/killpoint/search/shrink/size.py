"""Size of a scenario, in the units that a reader of it has to keep in mind."""

from __future__ import annotations

import math
import re

import msgspec

from killpoint.scenario import (
    Barrier,
    Broadcast,
    Call,
    Fault,
    Gather,
    Message,
    RingWrite,
    Scenario,
    Send,
    SendTo,
    Submit,
    Tensor,
)
from killpoint.search.shrink.tensors import tensors_of


class Size(msgspec.Struct, frozen=True, order=True):
    """The measure of a scenario; the first difference decides which of two is smaller."""

    roles: int
    faults: int
    steps: int
    calls: int
    messages: int
    bytes: int
    ring_bytes: int

    def compared(self, smaller: Size) -> str:
        """Return the change of each measure, for people: ``3 roles → 2, 24 messages → 1``."""
        words = [
            (self.roles, smaller.roles, "roles"),
            (self.faults, smaller.faults, "faults"),
            (self.steps, smaller.steps, "steps"),
            (self.calls, smaller.calls, "calls"),
            (self.messages, smaller.messages, "messages"),
            (self.bytes, smaller.bytes, "bytes"),
            (self.ring_bytes, smaller.ring_bytes, "bytes of ring"),
        ]
        return ", ".join(f"{was} {word} → {now}" for was, now, word in words if was != now)


def size_of(scenario: Scenario) -> Size:
    """The size of a scenario."""
    messages = [message for step in scenario.steps for message in _messages(step)]
    tensors = [tensor for step in scenario.steps for tensor in tensors_of(step)]
    shape = scenario.shape
    return Size(
        roles=len(scenario.roles()),
        faults=sum(isinstance(step, Fault) for step in scenario.steps),
        steps=len(scenario.steps),
        calls=sum(step.times for step in scenario.steps if isinstance(step, Call | Submit)),
        messages=sum(each.repeat for each in (*messages, *tensors)),
        bytes=sum(map(bytes_of, messages)) + sum(map(_bytes_of, tensors)),
        ring_bytes=shape.chunks * shape.chunk_bytes if scenario.subject() is shape else 0,
    )


def bytes_of(message: Message) -> int:
    """The bytes of a run of messages."""
    grown = message.step * (message.repeat - 1) * message.repeat // 2
    whole = message.size * message.repeat + grown
    return whole * (message.buffers if message.kind == "buffers" else 1)


def _bytes_of(tensor: Tensor) -> int:
    """The bytes of a run of tensors; ``float8_e4m3fn`` has 8 bits, ``bool`` as many."""
    bits = re.search(r"\d+", tensor.dtype)
    item = int(bits[0]) // 8 if bits else 1
    return tensor.repeat * (0 if tensor.form == "none" else item * math.prod(tensor.shape))


def _messages(step: object) -> list[Message]:
    match step:
        case Send() | SendTo() | Broadcast():
            return list(step.messages)
        case RingWrite():
            return [Message(size=step.size)]
        case Gather():
            return [step.message] * step.times
        case Barrier():
            return [Message(size=0)] * step.times
        case _:
            return []
