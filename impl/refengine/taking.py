"""What every reader's end does with a message: keep it until the caller has it (SPEC R7, R9)."""

from abc import abstractmethod
from typing import Any

from .cancel import EventLike
from .encoding import Raw, decode
from .end import End
from .errors import Busy, QueueClosed, Undecodable
from .handle import Handle
from .keeping import Undo
from .pickling import loads
from .retrial import own_error
from .settings import Settings


class TakingEnd(End):
    """A reader. A message is copied, kept, given back, decoded, then handed out.

    It is dropped from `_kept` only when the call returns: an exception in between leaves it to
    the next call (SPEC R9).
    """

    def __init__(self, handle: Handle, rank: int, settings: Settings, undo: Undo) -> None:
        super().__init__(settings.clock, undo)
        self.handle, self.rank = handle, rank
        self._kept: tuple[int, Raw] | None = None

    def dequeue(
        self,
        timeout: float | None = None,
        cancel: EventLike | None = None,
        indefinite: bool = False,
    ) -> Any:
        """The next message, or the error that says why there is none (see `errors`)."""
        guard = self._guard
        if guard.inside:
            guard.refuse("dequeue")
        watched = False
        given: tuple[int, Raw] | None = None
        try:
            if not guard.acquire(False):
                raise Busy("dequeue")
            guard.inside = True
            if self.obstacle is not None:
                raise self.obstacle("dequeue")
            if cancel is not None or indefinite or self._vigil.watched:
                watched = True
                self._vigil.begin(cancel, indefinite)
            obj = self._next(timeout)
            if watched:
                self._vigil.end()
            given, self._kept = self._kept, None
            guard.release()
            guard.inside = False
            return obj  # noqa: TRY300  an exception on the way out is one of those caught
        except BaseException:
            if given is not None:
                self._kept = given  # nobody got it: the next call gives it
            if watched:
                self._vigil.end()
            guard.leave()
            raise

    @abstractmethod
    def say_hello(self) -> None:
        """Let the writer know of this end: the last step of attaching.

        An exception from outside comes before it, and the writer has never heard of this end; or
        after attaching (SPEC R9).
        """

    @abstractmethod
    def _next(self, timeout: float | None) -> Any:
        """The next message decoded, kept, and given back to the writer."""

    def _decode(self, number: int, raw: Raw) -> Any:
        try:
            return loads(raw[0]) if len(raw) == 1 else decode(raw)
        except BaseException as error:
            if own_error(lambda: decode(raw)) is not type(error):
                raise  # it came from outside, or the next call tells: the message stays ours
            self._kept = None
            failure = Undecodable(number) if isinstance(error, Exception) else error
            vars(failure)["undecoded"] = raw[0]  # for whoever can make something of it
            raise failure from (error if failure is not error else None)

    def _refusal(self, waiting_for: str) -> Exception:
        fault = self._vigil.fault()
        return fault(waiting_for) if fault else QueueClosed("this end")

    def _missing(self) -> str:
        return "the writer's go"
