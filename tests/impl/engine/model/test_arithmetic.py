"""Folding and averaging, against whole numbers of any size."""

import torch

from refengine.engine.model.arithmetic import ExactArithmetic, GroupAttention
from refengine.engine.model.batching import RowGroup
from refengine.engine.model.size import ModelSize

SIZE = ModelSize(width=4, heads=2)
EXACT = ExactArithmetic(SIZE, "cpu")


def numbers(shape: tuple[int, ...], most: int, seed: int = 0) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randint(-most, most + 1, shape, generator=source).double()


def test_folding_keeps_the_rest_by_31_around_zero():
    given = [*range(-100, 100), 2**52 + 5, -(2**52) - 5, 15, 16, -15, -16]
    found = EXACT.fold(EXACT.numbers(given)).tolist()
    assert found == [(n + 15) % 31 - 15 for n in given]
    assert {*found} == set(range(-15, 16))
    same = EXACT.numbers([40, 3])
    EXACT.fold(same)
    assert same.tolist() == [40, 3]


def averaged(query: list[int], keys: list[list[int]], values: list[list[int]]) -> list[int]:
    weights = []
    for key in keys:
        score = sum(a * b for a, b in zip(query, key, strict=True))
        weights.append(2 ** min(max(score // 16 + 4, 0), 8))
    sums = [
        sum(w * v for w, v in zip(weights, column, strict=True))
        for column in zip(*values, strict=True)
    ]
    return [(1024 * total // sum(weights) + 15) % 31 - 15 for total in sums]


def test_an_average_is_what_its_formula_says():
    queries, keys, values = (numbers((1, 1, 40, 2), 15, seed) for seed in range(3))
    seen = torch.tril(torch.ones(40, 40)).double()
    found = EXACT.average(queries.clone(), keys, values, seen)[0, 0].tolist()
    parts = [each[0, 0].long().tolist() for each in (queries, keys, values)]
    for place in range(40):
        upto = place + 1
        assert found[place] == averaged(parts[0][place], parts[1][:upto], parts[2][:upto])


def test_a_group_sees_its_own_blocks_up_to_each_position():
    keys, values = numbers((6, 2, 3, 2), 15, 1), numbers((6, 2, 3, 2), 15, 2)
    queries = numbers((5, 2, 2), 15, 3)
    group = RowGroup(1, 4, [[4, 2], [5, 0]], [[3, 4], [1, 0]], [0, 1, 2])
    found = GroupAttention(EXACT, group, 3).attend(queries, keys, values)
    assert found.shape == (3, 4)
    places = [(1, [4, 2], 3), (2, [4, 2], 4), (3, [5], 1)]
    for row, (token, table, position) in enumerate(places):
        for head in range(2):
            seen = [(table[p // 3], p % 3) for p in range(position + 1)]
            part = averaged(
                queries[token, head].long().tolist(),
                [keys[b, head, o].long().tolist() for b, o in seen],
                [values[b, head, o].long().tolist() for b, o in seen],
            )
            assert found[row, 2 * head : 2 * head + 2].tolist() == part
