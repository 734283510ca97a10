"""The same queue for callers who wait as long as it takes: it knows no deadlines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipe_queue import PipeTarget, Reader, Writer

from killpoint.targets.protocol import UnsupportedByTarget

if TYPE_CHECKING:
    from killpoint.targets.protocol import Capability


class TakesNoDeadline(PipeTarget):
    """Refuses a timeout as what it is: something that the queue was never made for."""

    capabilities: frozenset[Capability] = frozenset(("queue",))

    def ready(self, end: Writer | Reader, timeout: float | None) -> None:
        super().ready(end, self._none(timeout))

    def send(self, end: Writer, obj: Any, timeout: float | None) -> None:
        super().send(end, obj, self._none(timeout))

    def receive(self, end: Reader, timeout: float | None) -> Any:
        return super().receive(end, self._none(timeout))

    def _none(self, timeout: float | None) -> None:
        if timeout is not None:
            raise UnsupportedByTarget("it has no deadlines")


class PromisesDeadlines(TakesNoDeadline):
    """Says that it has what it has not."""

    capabilities: frozenset[Capability] = frozenset(("queue", "deadlines"))

    def ready(self, end: Writer | Reader, timeout: float | None) -> None:
        end.ready(timeout)
