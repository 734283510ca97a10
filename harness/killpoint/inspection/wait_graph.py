"""The wait graph: each thread with the parties that could end its wait, and its fate. Pure.

A thread *goes on* if it runs, has a time limit, waits for the outside, or waits for a party that
goes on. A thread that is not shown to go on in this way, from the ends of the graph upward, waits
in vain; in between are threads of which it cannot be told.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Iterator, Mapping, Sequence

import msgspec

from killpoint.inspection.model import Culprit, Process
from killpoint.verdict import counted


class Fate(enum.IntEnum):
    """Fate of a thread; of several parties the best counts."""

    VAIN = 0
    UNSURE = 1
    GOES = 2


class Party(msgspec.Struct, frozen=True):
    """A process or thread that could end a wait."""

    pid: int
    tid: int | None = None
    """Thread that could end it; None: any thread of the process."""
    doubt: str = ""
    """Reason why it is not certain that it would; empty: it is the other party for certain."""


class Node(msgspec.Struct, frozen=True):
    """One thread."""

    pid: int
    tid: int
    name: str
    """Name for a person; empty: it runs no Python."""
    at: str = ""
    """Python frame of the thread."""
    what: str = ""
    """Description of what it does: ``reads pipe 77``."""
    fate: Fate | None = None
    """Fate, where it is known without a look at any other thread."""
    worst: Fate = Fate.VAIN
    """Lower bound of the fate: the thread has a time limit, or waits for something unseen."""
    parties: tuple[Party, ...] = ()
    every: bool = False
    """True if one of the parties is meant, and it is not known which."""
    doubt: str = ""
    """Text on what cannot be seen of its wait, or why no other should count on it."""
    waits: bool = False
    """True if it sleeps without a time limit, so that its wait has to be explained."""
    alone: str = ""
    """Reason why no other living process could end its wait; empty: one could."""
    servant: bool = False
    """True for a library's thread that acts only for others: it is no party of any wait."""
    told: bool = False
    """True if the rings show its wait already."""
    runs: bool = False
    """True if it was on a processor during the look."""
    beside: str = ""
    """Text on a wait, perhaps in vain, beside something else with which the thread goes on."""


Key = tuple[int, int]


class Graph:
    """All threads, and the fate of each."""

    def __init__(self, nodes: Sequence[Node], processes: Mapping[int, Process]) -> None:
        """``processes`` may have others than those that ``nodes`` are of."""
        self.nodes = {(node.pid, node.tid): node for node in nodes}
        self._processes = processes
        self._of: dict[int, list[Key]] = {}
        for key in self.nodes:
            self._of.setdefault(key[0], []).append(key)
        self.fates = {
            key: Fate.VAIN if node.fate is None else node.fate for key, node in self.nodes.items()
        }
        moved = True
        while moved:
            moved = False
            for key, node in self.nodes.items():
                if node.fate is None:
                    now = max(node.worst, self._fate(node))
                    moved = moved or now != self.fates[key]
                    self.fates[key] = now

    def _fate(self, node: Node) -> Fate:
        found = [self._through(node, party) for party in node.parties]
        if node.every and found:
            return found[0] if len(set(found)) == 1 else Fate.UNSURE
        return max(found, default=Fate.VAIN)

    def _through(self, node: Node, party: Party) -> Fate:
        fate = max((self.fates[key] for key in self.threads(node, party)), default=Fate.VAIN)
        return min(fate, Fate.UNSURE) if party.doubt else fate

    def threads(self, node: Node, party: Party) -> list[Key]:
        """Return the threads of a party that could end a wait: never the waiting thread itself."""
        keys = [(party.pid, party.tid)] if party.tid is not None else self._of.get(party.pid, [])
        own = (node.pid, node.tid)
        return [k for k in keys if k in self.nodes and k != own and not self.nodes[k].servant]

    def waiters(self, pids: Sequence[int]) -> Iterator[Node]:
        """Yield the threads of these processes that have to be explained."""
        for key, node in self.nodes.items():
            if key[0] in pids and node.waits:
                yield node

    def resting(self, pids: Sequence[int]) -> int:
        """Return the number of threads that wait for a party that goes on."""
        return sum(self.fates[n.pid, n.tid] is Fate.GOES for n in self.waiters(pids))

    def running(self) -> frozenset[int]:
        """Processes whose main thread is on a processor, again and again at least."""
        return frozenset(n.pid for n in self.nodes.values() if n.runs and n.tid == n.pid)

    def mains(self) -> dict[int, Node]:
        """The main thread of each process."""
        return {pid: node for (pid, tid), node in self.nodes.items() if pid == tid}

    def peerless(self, pids: Sequence[int]) -> list[int]:
        """Processes that poll ZeroMQ sockets of which none has a peer."""
        return [n.pid for n in self.nodes.values() if n.pid in pids and n.beside]

    def unexplained(self, pids: Sequence[int]) -> list[str]:
        """Return a line on unexplained threads, where no culprit is named and yet not all go on."""
        count = sum(1 for _ in self.waiters(pids)) - self.resting(pids)
        are = "is" if count == 1 else "are"
        return [f"{counted(count, 'waiting threads')} {are} not explained"] if count else []

    def vain(self, pids: Sequence[int]) -> list[Culprit]:
        """The ends of all chains of those who wait in vain, and the circles."""
        found: dict[str, tuple[int | None, set[int]]] = {}
        for node in self.waiters(pids):
            if self.fates[node.pid, node.tid] is Fate.VAIN and not node.told:
                for pid, sentence in self._ends(node):
                    found.setdefault(sentence, (pid, set()))[1].add(node.pid)
        return [
            Culprit(pid, sentence, tuple(sorted(waiters - {pid})))
            for sentence, (pid, waiters) in found.items()
        ]

    def _ends(self, start: Node) -> list[tuple[int | None, str]]:
        """Return where the chains from a thread end: stopped, dead or no processes, a circle."""
        ends: dict[str, int | None] = {}
        seen: list[Key] = []
        todo = [(start.pid, start.tid)]
        circle = False
        while todo:
            key = todo.pop()
            if key in seen:
                circle = True
                continue
            seen.append(key)
            node = self.nodes[key]
            if node.told:
                return []
            if node.fate is Fate.VAIN:
                ends[f"{self.called(node.pid)} {node.what}"] = node.pid
            elif node.alone or not (after := self._after(node, ends)):
                if not any(self._gone(party.pid) for party in node.parties):
                    ends[f"nobody that is there: {self.sentence(node)}"] = None
            else:
                todo += after
        if circle and not ends:
            ends[self._circle(start)] = start.pid
        return [(pid, sentence) for sentence, pid in ends.items()]

    def _after(self, node: Node, ends: dict[str, int | None]) -> list[Key]:
        found: list[Key] = []
        for party in node.parties:
            if self._gone(party.pid):
                ends[f"{self.called(party.pid)} is dead"] = party.pid
            found += self.threads(node, party)
        return found

    def _gone(self, pid: int) -> bool:
        process = self._processes.get(pid)
        return process is not None and process.dead

    def _circle(self, start: Node) -> str:
        """The threads of a circle that can be reached from this one, each with what it does."""
        walked = [start]
        while True:
            after = self._after(walked[-1], {})
            following = self.nodes[min(after)]
            if following in walked:
                circle = walked[walked.index(following) :]
                at = circle.index(min(circle, key=lambda node: (node.pid, node.tid)))
                told = [self.sentence(node) for node in circle[at:] + circle[:at]]
                return "each other: " + "; ".join(told)
            walked.append(following)

    def called(self, pid: int) -> str:
        """A process for a person."""
        process = self._processes.get(pid)
        return f"pid {pid} ({process.command})" if process else f"pid {pid}"

    def sentence(self, node: Node) -> str:
        """Return what a thread waits for, and why that cannot end, where it cannot."""
        main = node.tid == node.pid or not node.name
        thread = "" if main else f" thread {node.name}"
        at = f", at {node.at}" if node.at else ""
        why = f": {node.alone}" if node.alone else ""
        return f"{self.called(node.pid)}{thread} {node.what}{at}{why}"

    def unsure(self, pids: Sequence[int]) -> list[str]:
        """Return lines on threads that may wait in vain, with what cannot be seen."""
        found: dict[tuple[int, str], tuple[str, int]] = {}
        for node in self.waiters(pids):
            if self.fates[node.pid, node.tid] is not Fate.UNSURE:
                continue
            doubt = self._doubt(node, pids)
            if not doubt:
                continue  # who it waits for has one, and is told
            key = node.pid, node.what + doubt
            text, count = found.get(key, (f"{self.sentence(node)}; {doubt}", 0))
            found[key] = text, count + 1
        for key, node in self.nodes.items():
            if node.beside and key[0] in pids and self.fates[key] is Fate.GOES:
                found.setdefault(
                    (node.pid, node.beside), (f"{self.sentence(node)}; {node.beside}", 1)
                )
        return [
            f"{text} (and {count - 1} more threads of it)" if count > 1 else text
            for text, count in found.values()
        ]

    def beyond(self, pids: Sequence[int], known: Container[int | None] = ()) -> list[str]:
        """Return lines on others that wait in vain, are stopped or dead, and concern these.

        A server that listens goes on, whatever became of the processes that it asks for its
        answers.

        Args:
            pids: The tree's.
            known: Processes that have a line already.
        """
        found: dict[int, str] = {}
        from_: dict[Key, Node] = {key: n for key, n in self.nodes.items() if key[0] in pids}
        todo = list(from_)
        while todo:
            key = todo.pop(0)
            node, first = self.nodes[key], from_[key]
            for party in node.parties:
                if self._gone(party.pid) and party.pid not in pids:
                    found.setdefault(party.pid, self._counts(party.pid, "is dead", first))
                for other in self.threads(node, party):
                    if other in from_:
                        continue
                    from_[other] = first
                    todo.append(other)
                    if self.fates[other] is Fate.VAIN:
                        what = self.nodes[other].what
                        found.setdefault(other[0], self._counts(other[0], what, first))
        return [text for pid, text in found.items() if pid not in known]

    def _counts(self, pid: int, what: str, first: Node) -> str:
        return (
            f"{self.called(pid)} {what}, and {self.called(first.pid)} has to do with it; whether"
            " that one counts on it cannot be seen"
        )

    def _doubt(self, node: Node, pids: Sequence[int]) -> str:
        if node.doubt:
            return node.doubt
        told: list[str] = []
        for party in node.parties:
            keys = self.threads(node, party)
            best = max((self.fates[key] for key in keys), default=Fate.VAIN)
            if best is Fate.VAIN:
                continue
            if party.doubt and best is Fate.GOES:
                told.append(party.doubt)
            for key in keys:
                other = self.nodes[key]
                if self.fates[key] is Fate.UNSURE and not (other.waits and other.pid in pids):
                    why = f": {other.doubt}" if other.doubt else ""
                    told.append(f"{self.sentence(other)}{why}")
        return "; ".join(dict.fromkeys(told[:_MOST]))


_MOST = 4
