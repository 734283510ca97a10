"""The paged KV cache's blocks: reference counts, and lookup by content (prefix caching).

A full block's key is a hash of its tokens and of all before them. A block without references keeps
its content until it is needed: the one unused for longest goes first.
"""

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence

BlockKey = bytes
ROOT_KEY: BlockKey = b""


def block_key(before: BlockKey, tokens: Sequence[int]) -> BlockKey:
    """Return the key of a full block with these tokens after block `before` (ROOT_KEY: none)."""
    return hashlib.sha256(before + array("q", tokens).tobytes()).digest()


class BlockPool:
    """Blocks, each blank, idle (unreferenced, findable) or referenced. Sans I/O."""

    def __init__(self, blocks: int) -> None:
        self._blank = list(reversed(range(blocks)))
        self._idle: OrderedDict[int, None] = OrderedDict()  # longest unused first
        self._references: dict[int, int] = {}
        self._by_key: dict[BlockKey, int] = {}
        self._keys: dict[int, BlockKey] = {}

    @property
    def available(self) -> int:
        """Number of blocks that can be taken."""
        return len(self._blank) + len(self._idle)

    @property
    def in_use(self) -> int:
        """Number of referenced blocks."""
        return len(self._references)

    def take(self, count: int) -> list[int] | None:
        """Take new blocks, with one reference each; return None, and take none, if too few."""
        if count > self.available:
            return None
        return [self._take_one() for _ in range(count)]

    def find(self, keys: Iterable[BlockKey]) -> list[int]:
        """Return the blocks of the longest run of known keys, with one more reference each."""
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
        """Make a full block findable by this key, unless another one is."""
        if self._by_key.setdefault(key, block) == block:
            self._keys[block] = key

    def release(self, table: Sequence[int]) -> None:
        """Drop one reference of each. Ends of chains are reused before their beginnings."""
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
