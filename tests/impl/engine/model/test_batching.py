"""Where rows lie in a step's tensors."""

from refengine.engine.model.batching import Row, build_batch_layout


def row(start: int, count: int, *table: int, sample: bool = True) -> Row:
    return Row("r", tuple(range(start + 100, start + 100 + count)), start, table, sample)


def test_one_row():
    found = build_batch_layout([row(3, 3, 7, 5, 9)], 2)
    assert found.tokens == [103, 104, 105]
    assert found.positions == [3, 4, 5]
    assert (found.blocks, found.offsets) == ([5, 9, 9], [1, 0, 1])
    assert (found.sampled, found.last_tokens) == ([0], [2])
    (group,) = found.groups
    assert (group.first, group.last) == (0, 3)
    assert (group.tables, group.positions, group.places) == ([[7, 5, 9]], [[3, 4, 5]], [0, 1, 2])


def test_rows_of_like_lengths_attend_together_padded():
    rows = [row(0, 2, 4), row(9, 1, 1, 2, 3, 8, 6), row(1, 3, 5, 7, sample=False), row(1, 1, 9)]
    found = build_batch_layout(rows, 2)
    assert found.tokens == [100, 101, 101, 102, 103, 109, 101]
    assert found.sampled == [0, 1, 3]
    assert found.last_tokens == [1, 5, 6]
    longer, single = found.groups
    assert (longer.first, longer.last, single.first, single.last) == (0, 5, 5, 7)
    assert longer.tables == [[4, 0], [5, 7]]
    assert longer.positions == [[0, 1, 0], [1, 2, 3]]
    assert longer.places == [0, 1, 3, 4, 5]
    assert single.tables == [[1, 2, 3, 8, 6], [9, 0, 0, 0, 0]]
    assert single.positions == [[9], [1]]
    assert single.places == [0, 1]


def test_a_long_context_does_not_make_short_ones_long():
    short, long = row(0, 1, *range(7)), row(15, 1, *range(8))
    assert len(build_batch_layout([short, row(0, 1, 1)], 2).groups) == 1
    assert len(build_batch_layout([short, long], 2).groups) == 2
    assert len(build_batch_layout([long, row(0, 1, *range(15))], 2).groups) == 1
    assert len(build_batch_layout([long, row(0, 1, *range(16))], 2).groups) == 2
