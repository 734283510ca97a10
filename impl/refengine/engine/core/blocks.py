"""The paged KV cache's blocks: who refers to which, and which can be found by what they hold.

A full block is known by a hash of its tokens and of all before them. One that nobody refers to any
more keeps what it holds until it is needed: those unused for longest go first.
"""

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence

BlockKey = bytes
ROOT_KEY: BlockKey = b""


def block_key(before: BlockKey, tokens: Sequence[int]) -> BlockKey:
    """Of a full block with these tokens, after a block with that key (ROOT: the first one)."""
    return hashlib.sha256(before + array("q", tokens).tobytes()).digest()


class BlockPool:
    """Sans I/O. Each block is blank, idle (unreferenced, findable), or referred to."""

    def __init__(self, blocks: int) -> None:
        self._blank = list(reversed(range(blocks)))
        self._idle: OrderedDict[int, None] = OrderedDict()  # longest unused first
        self._references: dict[int, int] = {}
        self._by_key: dict[BlockKey, int] = {}
        self._keys: dict[int, BlockKey] = {}

    @property
    def available(self) -> int:
        """Blocks that can be taken."""
        return len(self._blank) + len(self._idle)

    @property
    def in_use(self) -> int:
        """Blocks that somebody refers to."""
        return len(self._references)

    def take(self, count: int) -> list[int] | None:
        """New blocks with one reference each; None, and nothing taken, if there are too few."""
        if count > self.available:
            return None
        return [self._take_one() for _ in range(count)]

    def find(self, keys: Iterable[BlockKey]) -> list[int]:
        """The blocks of the longest run of known keys, with one more reference each."""
        found: list[int] = []
        for key in keys:
            block = self._by_key.get(key)
            if block is None:
                break
            self._idle.pop(block, None)
            self._references[block] = self._references.get(block, 0) + 1
            found.append(block)
        return found

    def name(self, block: int, key: BlockKey) -> None:
        """It is full, and can be found from now on, unless another one can by that key."""
        if self._by_key.setdefault(key, block) == block:
            self._keys[block] = key

    def release(self, table: Sequence[int]) -> None:
        """One reference less to each. Ends of chains are used anew before their beginnings."""
        for block in reversed(table):
            self._references[block] -= 1
            if not self._references[block]:
                del self._references[block]
                if block in self._keys:
                    self._idle[block] = None
                else:
                    self._blank.append(block)

    def _take_one(self) -> int:
        if self._blank:
            block = self._blank.pop()
        else:
            block, _ = self._idle.popitem(last=False)
            del self._by_key[self._keys.pop(block)]
        self._references[block] = 1
        return block
