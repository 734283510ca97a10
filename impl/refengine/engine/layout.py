"""Where the rows of a batch lie in a step's tensors: tokens side by side, attention in groups.

Rows of like lengths attend together, padded to the longest of their group, so that a step costs
a few large operations and not some for each row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .batch import Row

_SHORT = 3  # bits: tables of up to 7 blocks go together


@dataclass(frozen=True)
class Group:
    """Rows that attend together. Their tokens lie side by side, from `first` to `last`."""

    first: int
    last: int
    tables: list[list[int]]
    """KV blocks by row, padded with block 0."""
    positions: list[list[int]]
    """Of the tokens by row, padded with 0."""
    places: list[int]
    """Of each token in the padded rows, taken as one."""


@dataclass(frozen=True)
class Layout:
    """Of one step."""

    tokens: list[int]
    positions: list[int]
    blocks: list[int]
    """Where the keys and values of each token go."""
    offsets: list[int]
    groups: list[Group]
    sampled: list[int]
    """Rows whose next token is wanted."""
    last_tokens: list[int]
    """Where their last tokens are."""


def lay_out(rows: Sequence[Row], block_size: int) -> Layout:
    """Tokens are in the order of their groups, which need not be that of the rows."""
    kinds: dict[tuple[int, int], list[int]] = {}
    for index, row in enumerate(rows):
        kind = len(row.tokens).bit_length(), max(len(row.table).bit_length(), _SHORT)
        kinds.setdefault(kind, []).append(index)
    made = Layout([], [], [], [], [], [], [])
    for members in kinds.values():
        made.groups.append(_group([rows[index] for index in members], len(made.tokens)))
        for index in members:
            _append(made, rows[index], block_size)
            if rows[index].sample:
                made.sampled.append(index)
                made.last_tokens.append(len(made.tokens) - 1)
    return made


def _append(made: Layout, row: Row, block_size: int) -> None:
    positions = range(row.start, row.start + len(row.tokens))
    made.tokens.extend(row.tokens)
    made.positions.extend(positions)
    made.blocks.extend(row.table[position // block_size] for position in positions)
    made.offsets.extend(position % block_size for position in positions)


def _group(rows: Sequence[Row], first: int) -> Group:
    longest = max(len(row.tokens) for row in rows)
    blocks = max(len(row.table) for row in rows)
    places = [
        number * longest + place
        for number, row in enumerate(rows)
        for place in range(len(row.tokens))
    ]
    return Group(
        first,
        first + len(places),
        [[*row.table, *[0] * (blocks - len(row.table))] for row in rows],
        [
            [*range(row.start, row.start + len(row.tokens)), *[0] * (longest - len(row.tokens))]
            for row in rows
        ],
        places,
    )
