"""A request inside a replica: its tokens so far, and their blocks in the KV cache."""

from ..protocol import Request
from .blocks import ROOT_KEY, BlockKey, block_key


class SequenceState:
    """Tokens of a request; the first `computed` have KV entries in the blocks of `table`."""

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
        """Number of blocks of the table that can be found by their keys."""
        self.fetches = request.imported is not None and len(request.prompt) > 1
        """True if its blocks are to come over a link, or are on their way."""
        self.cancelled = False
        self._keys: list[BlockKey] = []

    @property
    def pending(self) -> int:
        """Number of tokens that are yet to be computed."""
        return len(self.tokens) - self.computed

    @property
    def generated(self) -> int:
        """Number of tokens that the model has made."""
        return len(self.tokens) - len(self.request.prompt)

    def keys(self, count: int, block_size: int) -> list[BlockKey]:
        """Return the keys of its first `count` blocks, which are full."""
        while len(self._keys) < count:
            before = self._keys[-1] if self._keys else ROOT_KEY
            start = len(self._keys) * block_size
            self._keys.append(block_key(before, self.tokens[start : start + block_size]))
        return self._keys[:count]

    def reset(self) -> None:
        """Forget its cached blocks, and any that were to come."""
        self.table, self.computed, self.named, self.fetches = [], 0, 0, False
