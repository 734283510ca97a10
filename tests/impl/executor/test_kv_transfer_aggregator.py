from types import SimpleNamespace

from refengine.executor.executor import KVTransferAggregator


def step(*ranks):
    return [
        SimpleNamespace(name=i, finished_sending=set(s), finished_receiving=set(r))
        for i, (s, r) in enumerate(ranks)
    ]


def test_a_transfer_is_finished_when_every_rank_has_said_so_in_any_step():
    combine = KVTransferAggregator(2, 0).combine
    first = combine(step((["a"], []), ([], ["x"])))
    second = combine(step(([], ["x"]), (["a", "b"], [])))
    third = combine(step((["b"], []), ([], [])))
    assert [r.finished_sending for r in (first, second, third)] == [set(), {"a"}, {"b"}]
    assert [r.finished_receiving for r in (first, second, third)] == [set(), {"x"}, set()]


def test_the_result_is_the_output_ranks_own():
    assert KVTransferAggregator(3, 1).combine(step(([], []), ([], []), ([], []))).name == 1


def test_a_rank_may_have_nothing_to_say():
    results = [SimpleNamespace(), None]
    assert KVTransferAggregator(2, 0).combine(results).finished_sending == set()
    assert KVTransferAggregator(2, 1).combine(results) is None


def test_the_last_vote_may_come_without_a_result():
    combine = KVTransferAggregator(2, 1).combine
    first = combine(step(([], []), (["a"], ["x"])))
    assert (first.finished_sending, first.finished_receiving) == (set(), set())
    assert combine([*step((["a"], ["x"])), None]) is None
    told = combine(step(([], []), ([], [])))
    assert (told.finished_sending, told.finished_receiving) == ({"a"}, {"x"})
    assert combine(step(([], []), ([], []))).finished_sending == set()


def test_one_rank_that_votes_on_an_id_twice_does_not_vote_for_another():
    combine = KVTransferAggregator(2, 0).combine
    assert combine(step((["a"], []), ([], []))).finished_sending == set()
    assert combine(step((["a"], []), ([], []))).finished_sending == set()  # used again
    assert combine(step(([], []), (["a"], []))).finished_sending == {"a"}
    assert combine(step(([], []), (["a"], []))).finished_sending == {"a"}
