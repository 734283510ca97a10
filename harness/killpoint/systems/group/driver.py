"""Actions of a role as a rank of a process group, logged before and after each call.

The events come in pairs: ``send-to`` and ``sent-to``, ``receive-from`` and ``got-from``,
``broadcast`` and ``broadcast-done``, ``gather`` and ``gathered``, ``barrier`` and
``barrier-done``. The second of each pair has the outcome, its error's text, and the seconds ``s``.
Both have the number of the ``thread``, if it is not the role's first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from killpoint import scenario as script
from killpoint.runner import payload
from killpoint.runner.driver import Driver
from killpoint.runner.network.group_rendezvous import accepted
from killpoint.runner.protocol import Order
from killpoint.runner.second_threads import SecondThreads
from killpoint.targets.protocol import CountsEntries, HasGroup, UnsupportedByTarget
from killpoint.targets.shapes import GroupShape

if TYPE_CHECKING:
    from killpoint.runner.role import Role


class GroupDriver(Driver):
    """The group's half of a role; the role's ``end`` is its membership."""

    def __init__(self, role: Role, _folder: Path) -> None:
        self._role = role
        self._timed = role.timed
        self._barriers = 0
        self._beside = SecondThreads()

    def table(self) -> dict[type, Callable[[Order, Any], str]]:
        """Return the method for each step."""
        return {
            script.Join: self._join,
            script.SendTo: self._send_to,
            script.ReceiveFrom: self._receive_from,
            script.Broadcast: self._broadcast,
            script.Gather: self._gather,
            script.Barrier: self._barrier,
            script.GroupRejoin: self._rejoin,
            script.Leave: self._leave,
        }

    def _target(self) -> HasGroup:
        target = self._role.target
        if not isinstance(target, HasGroup):
            raise UnsupportedByTarget("no process group")
        return target

    def _note_silence(self, shape: GroupShape) -> None:
        """Log another peer timeout than the target's own, which checkers need."""
        if shape.silence is not None and "silence" in self._role.target.capabilities:
            self._log("silence", seconds=shape.silence)

    def _join(self, order: Order, step: script.Join) -> str:
        told, target = accepted(order.data), self._target()
        self._note_silence(told.shape)
        with self._role.guard.during("join", None):
            self._role.end = target.join(
                told.shape, (told.host, told.port), order.rank, told.secret, step.timeout
            )
        return "ok"

    def _leave(self, _order: Order, _step: script.Leave) -> str:
        self._role.give_up("leave", self._target().group_leave)
        return "ok"

    def _send_to(self, order: Order, step: script.SendTo) -> str:
        to = rank_of(step.to)
        for seq, obj, about in self._built(step.messages, order.first):
            self._log("send-to", seq=seq, to=step.to, **about)
            outcome, error, seconds = self._call(
                "send-to", lambda end, obj=obj: self._target().group_send(end, obj, to)
            )
            self._log("sent-to", seq=seq, to=step.to, outcome=outcome, error=error, s=seconds)
            if outcome != "ok":
                return "stopped"
        return "ok"

    def _receive_from(self, _order: Order, step: script.ReceiveFrom) -> str:
        return self._maybe_beside(step.beside, lambda: self._receives(step))

    def _receives(self, step: script.ReceiveFrom) -> str:
        source = rank_of(step.source)
        for _ in range(step.count):
            self._log("receive-from", source=step.source, timeout=step.timeout)
            got: list[Any] = []
            outcome, error, seconds = self._call(
                "receive-from",
                lambda end, got=got: got.append(
                    self._target().group_receive(end, source, step.timeout)
                ),
            )
            self._log(
                "got-from",
                source=step.source,
                outcome=outcome,
                error=error,
                s=seconds,
                **_found(got),
            )
            if outcome != "ok" and not step.keep_on:
                return "stopped"
        return "ok"

    def _broadcast(self, order: Order, step: script.Broadcast) -> str:
        mine = step.source == self._role.name
        return self._maybe_beside(
            step.beside and not mine, lambda: self._broadcasts(order, step, mine)
        )

    def _broadcasts(self, order: Order, step: script.Broadcast, mine: bool) -> str:
        todo = self._built(step.messages, order.first) if mine else _awaited(step.messages)
        for seq, obj, about in todo:
            how = {"seq": seq, **about} if mine else {}
            self._log("broadcast", source=step.source, timeout=step.timeout, **how)
            got: list[Any] = []
            outcome, error, seconds = self._call(
                "broadcast",
                lambda end, obj=obj, got=got: got.append(
                    self._target().group_broadcast(end, obj, rank_of(step.source), step.timeout)
                ),
            )
            self._log(
                "broadcast-done",
                source=step.source,
                outcome=outcome,
                error=error,
                s=seconds,
                **({"seq": seq} if mine else _found(got)),
            )
            if outcome != "ok":
                return "stopped"
        return "ok"

    def _gather(self, order: Order, step: script.Gather) -> str:
        return self._maybe_beside(step.beside, lambda: self._gathers(order, step))

    def _gathers(self, order: Order, step: script.Gather) -> str:
        turns = [msgspec.structs.replace(step.message, repeat=step.times)]
        for seq, obj, about in self._built(turns, order.first):
            self._log("gather", seq=seq, timeout=step.timeout, **about)
            got: list[Any] = []
            outcome, error, seconds = self._call(
                "gather",
                lambda end, obj=obj, got=got: got.extend(
                    self._target().group_gather(end, obj, step.timeout)
                ),
            )
            self._log(
                "gathered",
                outcome=outcome,
                error=error,
                s=seconds,
                seqs=[payload.sequence_of(each) for each in got],
                digests=[payload.digest(each) for each in got],
            )
            if outcome != "ok":
                return "stopped"
        return "ok"

    def _barrier(self, _order: Order, step: script.Barrier) -> str:
        return self._maybe_beside(step.beside, lambda: self._meets(step))

    def _meets(self, step: script.Barrier) -> str:
        for _ in range(step.times):
            number, self._barriers = self._barriers, self._barriers + 1
            self._log("barrier", n=number, timeout=step.timeout)
            outcome, error, seconds = self._call(
                "barrier", lambda end: self._target().group_barrier(end, step.timeout)
            )
            self._log("barrier-done", n=number, outcome=outcome, error=error, s=seconds)
            if outcome != "ok":
                return "stopped"
        self._count_entries()
        return "ok"

    def _count_entries(self) -> None:
        """Log the number of entries in the host's store after a barrier, if the target counts."""
        target, end = self._role.target, self._role.end
        if rank_of(self._role.name) == 0 and isinstance(target, CountsEntries) and end is not None:
            self._log("entries", count=target.group_entries(end))

    def _maybe_beside(self, beside: bool, act: Callable[[], str]) -> str:
        if not beside:
            return act()
        if "group_threads" not in self._role.target.capabilities:
            raise UnsupportedByTarget("no second thread may call while a first one waits")
        return self._beside.begin(act)

    def _rejoin(self, _order: Order, _step: script.GroupRejoin) -> str:
        return self._beside.rejoin()

    def _log(self, kind: str, **data: object) -> None:
        thread = self._beside.number()
        self._role.log.write(kind, **data, **({"thread": thread} if thread else {}))

    def _call(self, verb: str, act: Callable[[Any], object]) -> tuple[str, str, float]:
        end = self._role.end
        if end is None:
            return "no-member", "this role is no member: its join failed, or it has left", 0.0
        return self._timed(verb, lambda: act(end))

    def _built(
        self, messages: Sequence[script.Message], first: int
    ) -> Iterator[tuple[int, Any, dict[str, Any]]]:
        """Yield each message with its number and its log entry, built when its turn comes."""
        seq = first
        for message in messages:
            for turn in range(message.repeat):
                size = max(0, message.size + turn * message.step)
                obj, whole = payload.build_identified(message, self._role.seed, seq, size)
                about = {"form": message.kind, "size": size, "digest": whole}
                yield seq, obj, about
                seq += 1


def rank_of(role: str) -> int:
    """Return the number in a role's name."""
    return int(role.rsplit("-", 1)[1])


def _awaited(messages: Sequence[script.Message]) -> Iterator[tuple[int, Any, dict[str, Any]]]:
    """Yield the same turns at a rank that only receives."""
    for _ in range(sum(message.repeat for message in messages)):
        yield -1, None, {}


def _found(got: list[Any]) -> dict[str, Any]:
    if not got:
        return {}
    obj = got[0]
    whole, intact = payload.identify(obj)
    return {"seq": payload.sequence_of(obj), "digest": whole, "intact": intact}


make = GroupDriver
