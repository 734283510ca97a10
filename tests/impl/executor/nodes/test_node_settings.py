"""What two nodes must agree on, and who is refused."""

import pytest

from refengine.executor import Executor, NodeSettings, PoolSettings
from refengine.executor.nodes.settings import own_address_towards, ranks_of

from ..workers import Worker
from .pairs import WORKER, nodes


def test_the_keys_come_from_the_secret_which_never_shows():
    one, same, other = (
        NodeSettings("::1", 1, secret) for secret in (b"s" * 16, b"s" * 16, b"t" * 16)
    )
    assert one.keys == same.keys != other.keys
    assert "ssss" not in repr(one)
    assert (one.own_address, NodeSettings("::1", 1, b"s" * 16, "::2").own_address) == ("::1", "::2")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"secret": b"short"}, "at least 16"),
        ({"peer_timeout": 0.0}, "longer"),
        ({"peer_timeout": float("nan")}, "longer"),
    ],
)
def test_settings_that_protect_or_wait_for_nothing_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        NodeSettings(**({"head": "127.0.0.1", "port": 1, "secret": b"s" * 16} | given))


def test_each_node_has_half_of_the_ranks():
    assert [ranks_of(4, head=True), ranks_of(4, head=False)] == [range(2), range(2, 4)]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_own_address_is_the_one_that_the_head_would_see(host):
    assert own_address_towards(host, 9) == host


@pytest.mark.parametrize(
    ("worker", "shape", "error"),
    [(WORKER, (3,), ValueError), (WORKER, (4, 2), ValueError), (Worker, (2,), TypeError)],
)
def test_a_pool_that_cannot_be_parted_is_refused(worker, shape, error):
    with pytest.raises(error, match="two nodes"):
        Executor(worker, *shape, settings=PoolSettings(nodes=nodes()))
