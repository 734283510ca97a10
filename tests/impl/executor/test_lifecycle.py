import pytest

from refengine.executor.monitor import Lifecycle, PoolState

S = PoolState


@pytest.mark.parametrize(
    "path",
    [
        [S.READY, S.RUNNING, S.STOPPING, S.STOPPED],
        [S.READY, S.STOPPING, S.STOPPED],
        [S.FAILED, S.STOPPING, S.STOPPED],
        [S.READY, S.FAILED, S.STOPPING, S.STOPPED],
        [S.READY, S.RUNNING, S.FAILED, S.STOPPING, S.STOPPED],
        [S.STOPPING, S.STOPPED],
    ],
)
def test_every_way_forward_is_open(path):
    life = Lifecycle()
    for state in path:
        assert life.advance(state)
        assert life.state is state
    assert life.history == [S.STARTING, *path]


@pytest.mark.parametrize(
    ("path", "not_to"),
    [
        ([], [S.RUNNING, S.STOPPED, S.STARTING]),
        ([S.READY], [S.STOPPED]),
        ([S.READY, S.RUNNING], [S.READY, S.STOPPED]),
        ([S.FAILED], [S.READY, S.RUNNING, S.STOPPED]),
        ([S.READY, S.STOPPING], [S.READY, S.RUNNING, S.FAILED]),
        ([S.STOPPING, S.STOPPED], [S.READY, S.RUNNING, S.FAILED, S.STOPPING]),
    ],
)
def test_no_step_goes_back_or_skips_one(path, not_to):
    life = Lifecycle()
    for state in path:
        life.advance(state)
    before = life.state
    for state in not_to:
        if state is not S.STARTING:
            assert not life.advance(state)
    assert life.state is before


def test_only_the_first_of_two_takes_a_step():
    life = Lifecycle()
    assert [life.advance(S.FAILED), life.advance(S.FAILED)] == [True, False]
    assert life.history == [S.STARTING, S.FAILED]


def test_it_is_over_from_a_failure_on():
    life = Lifecycle()
    life.advance(S.READY)
    assert not life.ended
    life.advance(S.FAILED)
    assert life.ended
