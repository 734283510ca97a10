from types import SimpleNamespace

from refengine.executor.executor import KVTransferAggregator


def step(*ranks):
    return [
        SimpleNamespace(name=i, finished_sending=set(s), finished_receiving=set(r))
        for i, (s, r) in enumerate(ranks)
    ]


def combiner(world_size, output_rank):
    """A function that combines the results of a step in which every rank has answered."""
    aggregator = KVTransferAggregator(world_size, output_rank)

    def combine(results):
        for rank, result in enumerate(results):
            aggregator.record(rank, result)
        return aggregator.combine(results)

    return combine


def test_a_transfer_is_finished_when_every_rank_has_said_so_in_any_step():
    combine = combiner(2, 0)
    first = combine(step((["a"], []), ([], ["x"])))
    second = combine(step(([], ["x"]), (["a", "b"], [])))
    third = combine(step((["b"], []), ([], [])))
    assert [r.finished_sending for r in (first, second, third)] == [set(), {"a"}, {"b"}]
    assert [r.finished_receiving for r in (first, second, third)] == [set(), {"x"}, set()]


def test_the_result_is_the_output_ranks_own():
    assert combiner(3, 1)(step(([], []), ([], []), ([], []))).name == 1


def test_a_rank_may_have_nothing_to_say():
    results = [SimpleNamespace(), None]
    assert combiner(2, 0)(results).finished_sending == set()
    assert combiner(2, 1)(results) is None


def test_the_last_vote_may_come_without_a_result():
    combine = combiner(2, 1)
    first = combine(step(([], []), (["a"], ["x"])))
    assert (first.finished_sending, first.finished_receiving) == (set(), set())
    assert combine([*step((["a"], ["x"])), None]) is None
    told = combine(step(([], []), ([], [])))
    assert (told.finished_sending, told.finished_receiving) == ({"a"}, {"x"})
    assert combine(step(([], []), ([], []))).finished_sending == set()


def test_one_rank_that_votes_on_an_id_twice_does_not_vote_for_another():
    combine = combiner(2, 0)
    assert combine(step((["a"], []), ([], []))).finished_sending == set()
    assert combine(step((["a"], []), ([], []))).finished_sending == set()  # used again
    assert combine(step(([], []), (["a"], []))).finished_sending == {"a"}
    assert combine(step(([], []), (["a"], []))).finished_sending == {"a"}


def test_a_vote_counts_though_nothing_was_made_of_its_step():
    aggregator = KVTransferAggregator(2, 0)
    for rank, (result,) in enumerate([step((["a"], ["x"])), step(([], ["x"]))]):
        aggregator.record(rank, result)  # then the step failed
    results = step(([], []), (["a"], []))
    for rank, result in enumerate(results):
        aggregator.record(rank, result)
    told = aggregator.combine(results)
    assert (told.finished_sending, told.finished_receiving) == ({"a"}, {"x"})
