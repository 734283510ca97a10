"""Errors, as types: each carries the facts, and its text says what to do next."""


class RefengineError(Exception):
    """Base of every error raised here; `facts` are the constructor's arguments."""

    def __init__(self, text: str, *facts: object) -> None:
        super().__init__(text)
        self.facts = facts

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.facts


class DeadlinePassed(RefengineError, TimeoutError):
    """A deadline ran out; the operation had no effect and may be retried (SPEC X1, Q9)."""

    def __init__(self, waiting_for: str, seconds: float) -> None:
        self.waiting_for, self.seconds = waiting_for, seconds
        text = f"waited {seconds:g} s for {waiting_for}; nothing changed, the call can be retried"
        super().__init__(text, waiting_for, seconds)


class Cancelled(RefengineError):
    """A cancel token or `shutdown()` woke the waiter; the operation had no effect."""

    def __init__(self, waiting_for: str, cause: str) -> None:
        self.waiting_for, self.cause = waiting_for, cause
        super().__init__(f"{cause} while waiting for {waiting_for}", waiting_for, cause)


class PeerDied(RefengineError):
    """A process on the other side ended without saying goodbye (SPEC Q6, Q7, Q10).

    Over a network all that is seen is that its connection broke: it may have ended, or have closed
    with more under way than it could send in the time that a close has.
    """

    def __init__(
        self,
        role: str,
        pid: int,
        waiting_for: str,
        signal: int | None = None,
        broken: float | None = None,
    ) -> None:
        """``signal``: what killed it; ``broken``: seconds for which its connection did not return.

        Without either it is known that the process ended.
        """
        self.role, self.pid, self.waiting_for, self.signal = role, pid, waiting_for, signal
        self.broken = broken
        how = f"was killed by signal {signal}" if signal else "ended without closing the queue"
        find_out = "why that process ended"
        if broken is not None:
            how = f"is gone: its connection broke, and was not back within {broken:g} s"
            find_out = "what became of that process"
        text = (
            f"{role} (pid {pid}) {how}; noticed while waiting for {waiting_for}. "
            f"Find out {find_out}, then build a new queue"
        )
        super().__init__(text, role, pid, waiting_for, signal, broken)


class PeerSilent(RefengineError):
    """A party on another host gave no sign of life for too long (SPEC Q18)."""

    def __init__(self, role: str, seconds: float, waiting_for: str) -> None:
        self.role, self.seconds, self.waiting_for = role, seconds, waiting_for
        text = (
            f"{role} was not heard of for {seconds:g} s; noticed while waiting for {waiting_for}. "
            "Find out whether its host and the network are up, then build a new one"
        )
        super().__init__(text, role, seconds, waiting_for)


class QueueClosed(RefengineError):
    """The other side closed cleanly and nothing is left to take, or nobody is left to give to."""

    def __init__(self, who: str) -> None:
        self.who = who
        super().__init__(f"{who} closed the queue; leave the loop or build a new queue", who)


class MessagesLost(RefengineError):
    """The writer closed before these messages could be handed over (SPEC Q16)."""

    def __init__(self, count: int) -> None:
        self.count = count
        text = (
            f"{count} message(s) were not handed over before the writer's close gave up; "
            "give close() more time or take messages faster. Later messages are still readable"
        )
        super().__init__(text, count)


class Busy(RefengineError):
    """Two threads (or a signal handler) used one queue object at once (SPEC Q13)."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        text = f"{operation}: another thread is inside this object; give each its own"
        super().__init__(text, operation)


class WrongRole(RefengineError):
    """An operation of the other role, e.g. dequeue on the writer (SPEC Q17)."""

    def __init__(self, operation: str, role: str) -> None:
        self.operation, self.role = operation, role
        text = f"{operation} is not for a {role}; call it on the other end"
        super().__init__(text, operation, role)


class NotReady(RefengineError):
    """A message operation before the rendezvous is complete."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        text = f"{operation} before wait_until_ready(); call it first, at every party"
        super().__init__(text, operation)


class RankRefused(RefengineError):
    """An unknown or duplicate rank (SPEC Q17)."""

    def __init__(self, rank: int, reason: str, role: str = "reader") -> None:
        self.rank, self.reason, self.role = rank, reason, role
        super().__init__(f"{role} rank {rank} refused: {reason}", rank, reason, role)


class AttachFailed(RefengineError):
    """The thing to attach to is missing, too small, or not what the handle says (SPEC R8)."""

    def __init__(self, what: str, reason: str) -> None:
        self.what, self.reason = what, reason
        text = f"cannot attach to {what}: {reason}. Is the writer alive, and the handle its newest?"
        super().__init__(text, what, reason)


class MemoryShort(RefengineError):
    """The shared memory cannot be had (SPEC Q15)."""

    def __init__(self, path: str, nbytes: int, reason: str) -> None:
        self.path, self.nbytes, self.reason = path, nbytes, reason
        text = f"no {nbytes} bytes for {path}: {reason}. Enlarge /dev/shm or use fewer chunks"
        super().__init__(text, path, nbytes, reason)


class EncodingLimit(RefengineError):
    """The object does not fit the format; nothing was published (SPEC Q4)."""

    def __init__(self, what: str, value: int, limit: int) -> None:
        self.what, self.value, self.limit = what, value, limit
        text = f"{what} is {value}, the format carries {limit}; split it"
        super().__init__(text, what, value, limit)


class Unencodable(RefengineError):
    """Pickling failed (see __cause__); nothing was published (SPEC R7)."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name
        super().__init__(f"cannot encode a {type_name}; nothing was published", type_name)


class Undecodable(RefengineError):
    """Unpickling failed (see __cause__); raised once, the message is consumed (SPEC R7)."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"message {number} cannot be decoded here; it was consumed", number)


class ForkedCopy(RefengineError):
    """This object was inherited through fork and belongs to the parent."""

    def __init__(self, pid: int, what: str = "queue") -> None:
        self.pid, self.what = pid, what
        instead = "attach from its handle" if what == "queue" else "make a new one"
        text = f"this {what} belongs to process {pid}; {instead} instead"
        super().__init__(text, pid, what)


class RankDied(PeerDied):
    """A rank of a group ended without leaving it (SPEC G3, G4)."""

    def __init__(self, rank: int, pid: int, waiting_for: str) -> None:
        super().__init__(f"rank {rank}", pid, waiting_for)
        self.rank = rank
        self.facts = rank, pid, waiting_for
        pid_known = f" (pid {pid} on its host)" if pid else ""
        self.args = (
            f"rank {rank}{pid_known} ended without leaving the group; noticed while waiting for "
            f"{waiting_for}. Find out why that process ended, then build a new group",
        )


class GroupClosed(RefengineError):
    """A rank that the call needs has left the group cleanly (SPEC G4)."""

    def __init__(self, who: str, lost: int = 0) -> None:
        self.who, self.lost = who, lost
        unsaid = f", {lost} message(s) of which could not be handed over," if lost else ""
        text = f"{who}{unsaid} has left the group; build a new one to go on"
        super().__init__(text, who, lost)


class BarrierFailed(DeadlinePassed):
    """These ranks did not come to a barrier in time (SPEC G3); it can be called again (X1)."""

    def __init__(self, missing: list[int], seconds: float) -> None:
        super().__init__(f"{_ranks(missing)} at the barrier", seconds)
        self.missing = missing
        self.facts = missing, seconds


class NotAuthentic(RefengineError):
    """A stored value was not made by a member of the group; it was not decoded (SPEC S3)."""

    def __init__(self, what: str) -> None:
        self.what = what
        text = f"{what} was not made with this group's key; who else can write to the store?"
        super().__init__(text, what)


def _ranks(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
