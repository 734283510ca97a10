"""A request inside a replica: its tokens so far, and where the KV cache holds them."""

from ..protocol import Request
from .blocks import ROOT_KEY, BlockKey, block_key


class SequenceState:
    """The first `computed` tokens have their keys and values in the blocks of `table`."""

    __slots__ = (
        "_keys",
        "arrival",
        "cancelled",
        "computed",
        "fetches",
        "named",
        "request",
        "table",
        "tokens",
    )

    def __init__(self, request: Request, arrival: int) -> None:
        self.request, self.arrival = request, arrival
        self.tokens = list(request.prompt)
        self.computed = 0
        self.table: list[int] = []
        self.named = 0
        """How many blocks of the table can be found by their keys."""
        self.fetches = request.imported is not None and len(request.prompt) > 1
        """Its blocks are to come over a link, or are on their way."""
        self.cancelled = False
        self._keys: list[BlockKey] = []

    @property
    def pending(self) -> int:
        """Tokens that are yet to be computed."""
        return len(self.tokens) - self.computed

    @property
    def generated(self) -> int:
        """Tokens that the model has made."""
        return len(self.tokens) - len(self.request.prompt)

    def keys(self, count: int, block_size: int) -> list[BlockKey]:
        """Of its first so many blocks, which are full."""
        while len(self._keys) < count:
            before = self._keys[-1] if self._keys else ROOT_KEY
            start = len(self._keys) * block_size
            self._keys.append(block_key(before, self.tokens[start : start + block_size]))
        return self._keys[:count]

    def reset(self) -> None:
        """Nothing of it is in the cache any more, and nothing comes."""
        self.table, self.computed, self.named, self.fetches = [], 0, 0, False
