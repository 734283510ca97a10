"""A step's batch and its results, and the layout of its rows in a step's tensors.

In a layout tokens lie side by side. Rows of like lengths attend together, padded to the longest of
their group, so that a step costs a few large operations and not some for each row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec


class Row(msgspec.Struct, frozen=True, array_like=True):
    """Tokens of one request, from position `start` on."""

    request_id: str
    tokens: tuple[int, ...]
    start: int
    table: tuple[int, ...]
    """KV blocks of positions 0 … start + len(tokens) - 1, in order."""
    sample: bool
    """True if its next token is wanted."""


class Transfer(msgspec.Struct, frozen=True, array_like=True):
    """KV blocks to send or fetch over a link."""

    transfer_id: str
    link: str
    table: tuple[int, ...]


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """One step's order to all workers. Without rows it only asks for the ends of transfers."""

    rows: tuple[Row, ...] = ()
    fetch: tuple[Transfer, ...] = ()
    """Transfers to begin: blocks to fetch."""
    send: tuple[Transfer, ...] = ()
    """Transfers to begin: blocks to send."""


class StepResult(msgspec.Struct, array_like=True):
    """Result of a step, of one rank."""

    tokens: list[int | None] = []
    """Next tokens by row; None where none was wanted."""
    kv_done: tuple[str, ...] = ()
    """Transfers completed since the last step; nothing accesses their blocks now."""
    kv_failed: tuple[str, ...] = ()
    """Transfers failed since the last step; nothing accesses their blocks now."""


_SHORT = 3  # bits: tables of up to 7 blocks go together


@dataclass(frozen=True)
class RowGroup:
    """Rows that attend together; their tokens lie side by side, from `first` to `last`."""

    first: int
    last: int
    tables: list[list[int]]
    """KV blocks by row, padded with block 0."""
    positions: list[list[int]]
    """Positions of the tokens by row, padded with 0."""
    places: list[int]
    """Index of each token in the padded rows, flattened."""


@dataclass(frozen=True)
class BatchLayout:
    """Index lists of one step, from which its tensors are made."""

    tokens: list[int]
    positions: list[int]
    blocks: list[int]
    """KV block of each token; `offsets` is the place within it."""
    offsets: list[int]
    groups: list[RowGroup]
    sampled: list[int]
    """Indexes of the rows whose next token is wanted."""
    last_tokens: list[int]
    """Indexes of those rows' last tokens."""


def build_batch_layout(rows: Sequence[Row], block_size: int) -> BatchLayout:
    """Lay the rows out; tokens are in the order of their groups, which may not be the rows'."""
    kinds: dict[tuple[int, int], list[int]] = {}
    for index, row in enumerate(rows):
        kind = len(row.tokens).bit_length(), max(len(row.table).bit_length(), _SHORT)
        kinds.setdefault(kind, []).append(index)
    made = BatchLayout([], [], [], [], [], [], [])
    for members in kinds.values():
        made.groups.append(_group([rows[index] for index in members], len(made.tokens)))
        for index in members:
            _append(made, rows[index], block_size)
            if rows[index].sample:
                made.sampled.append(index)
                made.last_tokens.append(len(made.tokens) - 1)
    return made


def _append(made: BatchLayout, row: Row, block_size: int) -> None:
    positions = range(row.start, row.start + len(row.tokens))
    made.tokens.extend(row.tokens)
    made.positions.extend(positions)
    made.blocks.extend(row.table[position // block_size] for position in positions)
    made.offsets.extend(position % block_size for position in positions)


def _group(rows: Sequence[Row], first: int) -> RowGroup:
    longest = max(len(row.tokens) for row in rows)
    blocks = max(len(row.table) for row in rows)
    places = [
        number * longest + place
        for number, row in enumerate(rows)
        for place in range(len(row.tokens))
    ]
    return RowGroup(
        first,
        first + len(places),
        [[*row.table, *[0] * (blocks - len(row.table))] for row in rows],
        [
            [*range(row.start, row.start + len(row.tokens)), *[0] * (longest - len(row.tokens))]
            for row in rows
        ],
        places,
    )
