"""The front end's requests: the replica of each, and its restart when that replica dies (E3)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..errors import EngineClosed, EngineFull, RequestFailed
from ..health import STUCK_AFTER, EngineCounts, Health
from ..protocol import AddRequest, Cancel, FromCore, Heartbeat, Output, Refused, Request, ToCore
from ..settings import EngineSettings
from .replica_state import ReplicaState
from .router import LoadBalancer
from .streams import Delta, StreamEvent

_OUTCOMES: tuple[str, ...] = ("stop", "length", "cancelled", "failed", "refused")


@dataclass(frozen=True)
class Connect:
    """Connect to this replica."""

    name: str
    address: str


@dataclass(frozen=True)
class Disconnect:
    """Disconnect from this replica."""

    name: str


@dataclass(frozen=True)
class Send:
    """Send a message to a replica."""

    name: str
    message: ToCore


@dataclass(frozen=True)
class Deliver:
    """Deliver an event to a request's stream."""

    id: str
    event: StreamEvent


@dataclass(frozen=True)
class DropReplica:
    """End this replica, which makes no progress."""

    name: str
    life: int
    cause: str


Action = Connect | Disconnect | Send | Deliver | DropReplica


@dataclass
class _OpenRequest:
    """A request that has not ended."""

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    tokens: list[int] = field(default_factory=lambda: list[int]())
    restarts: int = 0
    """Number of times that it was begun anew."""
    replica: str = ""
    """Name of the replica that has it; empty: none."""
    attempt: str = ""
    """Its id at that replica."""
    link: str = ""
    """The KV link by which a prefill replica hands it on."""
    decode: str = ""
    """Name of the decode replica that it is handed on to."""
    cause: str = ""
    """Reason of its last restart."""


class RequestTracker:
    """Sans I/O, in monotonic seconds: takes events, and returns the actions to do, in order.

    A request whose replica dies is begun anew elsewhere with the tokens that it has given already
    as part of its prompt: the model's arithmetic is exact, so it goes on as it would have.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._balancer, self._prefill_balancer = LoadBalancer(), LoadBalancer()
        self.replicas: dict[str, ReplicaState] = {}
        for prefills, word, count in (
            (False, "core", settings.data_parallel),
            (True, "prefill", settings.prefill),
        ):
            for number in range(count):
                name = f"{word}-{number}"
                self.replicas[name] = ReplicaState(name, prefills)
        self._open: dict[str, _OpenRequest] = {}
        self._attempts: dict[str, _OpenRequest] = {}
        self._links: dict[str, tuple[str, str]] = {}
        self._begun = 0
        self._last_loss = ""
        """Name of the replica that was lost last, and the reason."""
        self._none_since = 0.0
        """Time at which a decode replica was lost last: requests wait only while none serves."""
        self.outcomes: Counter[str] = Counter(dict.fromkeys(_OUTCOMES, 0))
        self.prompt_tokens = 0
        self.tokens = 0
        self.retries = 0

    @property
    def open(self) -> int:
        """Number of requests that have not ended."""
        return len(self._open)

    # -- what its user wants --------------------------------------------------------------------

    def submit(
        self, request_id: str, prompt: Sequence[int], max_tokens: int, now: float
    ) -> list[Action]:
        """Place a new request. Raises EngineFull; ValueError if its id is in use."""
        if request_id in self._open:
            raise in_use(request_id)
        limit = self._settings.max_waiting
        waiting = sum(not entry.tokens for entry in self._open.values())
        if waiting >= limit:
            self.outcomes["refused"] += 1
            raise EngineFull(waiting, limit)
        entry = _OpenRequest(request_id, tuple(prompt), max_tokens)
        self._open[request_id] = entry
        self.prompt_tokens += len(entry.prompt)
        return self._place(entry, now)

    def cancel(self, request_id: str) -> list[Action]:
        """Cancel a request, unless it has ended."""
        entry = self._open.get(request_id)
        if entry is None:
            return []
        out: list[Action] = [Send(entry.replica, Cancel(entry.attempt))] if entry.replica else []
        self._withdraw(entry)
        return out + self._end(entry, Delta((), "cancelled"), "cancelled")

    def close(self) -> list[Action]:
        """End all open requests with EngineClosed."""
        out: list[Action] = []
        for entry in list(self._open.values()):
            self._withdraw(entry)
            out += self._end(entry, EngineClosed(f"request {entry.id}"), "failed")
        return out

    # -- what becomes of replicas ---------------------------------------------------------------

    def started(self, name: str, life: int, pid: int) -> list[Action]:
        """Note a replica's new process."""
        self.replicas[name].started(life, pid)
        return []

    def arrived(self, name: str, address: str, now: float) -> list[Action]:
        """Note that a replica serves from now on; place waiting requests."""
        self.replicas[name].arrived(now)
        out: list[Action] = [Connect(name, address)]
        for entry in list(self._open.values()):
            if not entry.replica:
                out += self._place(entry, now)
        return out

    def left(self, name: str, cause: str, coming: bool, now: float) -> list[Action]:
        """Note the loss of a replica, and begin its requests anew; `coming`: it will come back."""
        replica = self.replicas[name]
        out: list[Action] = [Disconnect(name)] if replica.serving else []
        replica.left(coming)
        self._last_loss = f"{name} {cause}"
        if not replica.prefills:
            self._none_since = now
        self._links = {link: ends for link, ends in self._links.items() if name not in ends}
        for entry in [entry for entry in self._open.values() if entry.replica == name]:
            self._withdraw(entry)
            entry.restarts += 1
            entry.cause = self._last_loss
            if entry.restarts > self._settings.retries:
                out += self._fail(entry, f"{entry.cause}, and it was begun {entry.restarts} times")
            else:
                self.retries += 1
        for entry in list(self._open.values()):
            if not entry.replica:
                out += self._place(entry, now)
        return out

    def linked(self, link: str, prefill: str, decode: str) -> list[Action]:
        """Note a KV link that is up."""
        self._links[link] = (prefill, decode)
        return []

    def unlinked(self, link: str) -> list[Action]:
        """Note a KV link that is down."""
        self._links.pop(link, None)
        return []

    def receive(self, name: str, message: FromCore, now: float) -> list[Action]:
        """Take a message of a replica."""
        replica = self.replicas[name]
        if isinstance(message, Heartbeat):
            if replica.serving:  # else it is of a life that is over
                replica.heartbeat(message, now)
            return []
        replica.heard_from(now)
        if isinstance(message, Refused):
            entry = self._attempts.get(message.id)
            if entry is None:
                return []
            self._withdraw(entry)
            return self._fail(entry, message.cause)
        replica.progressed(now)
        out: list[Action] = []
        for output in message.outputs:
            entry = self._attempts.get(output.id)
            if entry is not None:
                out += self._on_output(entry, output, now)
        return out

    def tick(self, now: float) -> list[Action]:
        """Return the replicas to drop because they make no progress."""
        out: list[Action] = []
        for replica in self.replicas.values():
            cause = replica.drop_reason(now, self._settings.step_timeout)
            if cause:
                out.append(DropReplica(replica.name, replica.life, cause))
        return out

    def health(self, now: float, *, alive: bool) -> Health:
        """Return the health as it is known now."""
        replicas = tuple(replica.health(now) for replica in self.replicas.values())
        decodes = [r for r in replicas if not self.replicas[r.name].prefills]
        ready = alive and any(replica.state == "ready" for replica in decodes)
        moving = all(replica.since_step <= STUCK_AFTER for replica in replicas)
        moving = moving and not self._stranded(now)
        return Health(alive, ready, moving, replicas)

    def _stranded(self, now: float) -> bool:
        """Return whether requests have waited too long for a replica to come."""
        waits = any(not entry.replica for entry in self._open.values())
        return waits and now - self._none_since > STUCK_AFTER

    def counts(self, restarts: dict[str, int], wave: int) -> EngineCounts:
        """Return the counts since it was made."""
        replicas = self.replicas.values()
        return EngineCounts(
            requests=dict(self.outcomes),
            open=self.open,
            prompt_tokens=self.prompt_tokens,
            tokens=self.tokens,
            retries=self.retries,
            restarts=restarts,
            waiting={replica.name: replica.waiting for replica in replicas},
            running={replica.name: replica.running for replica in replicas},
            steps={replica.name: replica.steps for replica in replicas},
            wave=wave,
            imported=sum(replica.imported for replica in replicas),
        )

    # -- one request ----------------------------------------------------------------------------

    def _on_output(self, entry: _OpenRequest, output: Output, now: float) -> list[Action]:
        entry.tokens += output.tokens
        self.tokens += len(output.tokens)
        if output.finish in (None, "exported"):
            out: list[Action] = [Deliver(entry.id, Delta(output.tokens))] if output.tokens else []
            if output.finish is not None:
                out += self._hand_on(entry, now)
            return out
        self._withdraw(entry)
        return self._end(entry, Delta(output.tokens, output.finish), output.finish)

    def _hand_on(self, entry: _OpenRequest, now: float) -> list[Action]:
        """Send a prefilled request to the decode replica, if that still serves."""
        link, transfer, decode = entry.link, entry.attempt, entry.decode
        self._withdraw(entry)
        if link in self._links and self.replicas[decode].serving:
            return self._send(entry, decode, now, imported=link, transfer=transfer)
        other = self._decode(now)
        return self._wait(entry) if other is None else self._send(entry, other, now)

    def _place(self, entry: _OpenRequest, now: float) -> list[Action]:
        """Send it to a replica that can take it; without one it waits, if one is to come."""
        decode = self._decode(now)
        if decode is None:
            return self._wait(entry)
        links = {p: link for link, (p, d) in self._links.items() if d == decode}
        prefill = self._least(self._prefill_balancer, [self.replicas[p] for p in links], now)
        if prefill is None:
            return self._send(entry, decode, now)
        entry.link, entry.decode = links[prefill], decode
        self.replicas[decode].expected += 1
        return self._send(entry, prefill, now, export=entry.link)

    def _wait(self, entry: _OpenRequest) -> list[Action]:
        if any(replica.coming for replica in self.replicas.values() if not replica.prefills):
            return []
        cause = entry.cause or self._last_loss or "no replica is there"
        return self._fail(entry, f"{cause}, and none will come")

    def _decode(self, now: float) -> str | None:
        """Return the decode replica to use: a stuck one only if there is no other."""
        serving = [
            replica
            for replica in self.replicas.values()
            if replica.serving and not replica.prefills
        ]
        return self._least(self._balancer, serving, now) or self._balancer.choose(_loads(serving))

    def _least(
        self, balancer: LoadBalancer, replicas: Iterable[ReplicaState], now: float
    ) -> str | None:
        return balancer.choose(
            _loads(replica for replica in replicas if replica.state(now) == "ready")
        )

    def _send(
        self,
        entry: _OpenRequest,
        name: str,
        now: float,
        *,
        export: str | None = None,
        imported: str | None = None,
        transfer: str = "",
    ) -> list[Action]:
        self._begun += 1
        entry.replica, entry.attempt = name, f"{entry.id}#{self._begun}"
        self._attempts[entry.attempt] = entry
        self.replicas[name].sent(entry.attempt, now)
        request = Request(
            entry.attempt,
            (*entry.prompt, *entry.tokens),
            entry.max_tokens - len(entry.tokens),
            export,
            imported,
            transfer,
        )
        return [Send(name, AddRequest(request))]

    def _withdraw(self, entry: _OpenRequest) -> None:
        """Detach the request from its replica."""
        if entry.replica:
            self._attempts.pop(entry.attempt, None)
            self.replicas[entry.replica].open.discard(entry.attempt)
        if entry.decode:
            self.replicas[entry.decode].expected -= 1
        entry.replica = entry.attempt = entry.link = entry.decode = ""

    def _fail(self, entry: _OpenRequest, cause: str) -> list[Action]:
        return self._end(entry, RequestFailed(entry.id, cause, tuple(entry.tokens)), "failed")

    def _end(self, entry: _OpenRequest, event: StreamEvent, outcome: str) -> list[Action]:
        del self._open[entry.id]
        self.outcomes[outcome] += 1
        return [Deliver(entry.id, event)]


def in_use(request_id: str) -> ValueError:
    """Return the error of a request whose id another one has."""
    return ValueError(f"there is a request {request_id!r} already, which has not ended")


def _loads(replicas: Iterable[ReplicaState]) -> dict[str, int]:
    return {replica.name: replica.load for replica in replicas}
