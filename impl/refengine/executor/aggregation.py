"""A request's transfer is finished when every rank has said so, in whichever step each does."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any


class _Votes:
    """Counts the ranks that have named each request."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._named: Counter[str] = Counter()

    def hear(self, named: Iterable[Iterable[str] | None]) -> set[str]:
        """What each rank names in this step; those that all have named by now, each once."""
        for names in named:
            self._named.update(names or ())
        complete = {name for name, count in self._named.items() if count >= self._ranks}
        for name in complete:
            del self._named[name]
        return complete


class Aggregation:
    """Makes one result of every rank's: the output rank's, with all ranks' finished transfers.

    A result may have `finished_sending` and `finished_receiving`, sets of request ids.
    """

    def __init__(self, world_size: int, output_rank: int) -> None:
        self._output_rank = output_rank
        self._sent, self._received = _Votes(world_size), _Votes(world_size)

    def combine(self, results: Sequence[Any]) -> Any:
        """Call it once for each step, with the results in rank order."""
        output = results[self._output_rank]
        sent = self._sent.hear(getattr(r, "finished_sending", None) for r in results)
        received = self._received.hear(getattr(r, "finished_receiving", None) for r in results)
        if output is not None:
            output.finished_sending, output.finished_receiving = sent, received
        return output
