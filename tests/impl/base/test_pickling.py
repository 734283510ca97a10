"""The kept pickler: what its memo knows beforehand is never taken for something else."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from refengine.base import serialization
from refengine.base.serialization import Pickler, loads

MIB = 1 << 20


def through(obj: object, pickler: Pickler | None = None):
    main, *buffers = (pickler or Pickler(MIB)).dumps(obj)
    return loads(main, buffers)


def test_an_array_needs_no_names():
    (main,) = Pickler(MIB).dumps({"data": np.arange(8)})
    assert b"numpy" not in main


@pytest.mark.parametrize(
    "obj",
    [
        {"a": 1, "b": ["x", ("y", None)]},
        [shared := ["same"], shared, shared],
        np.ndarray,
        [np.ndarray, np.dtype("f4"), np.float32(2)],
        "x" * 200_000,
        [b"y" * 70_000, "z" * 70_000],
    ],
    ids=["plain", "shared", "the class itself", "classes", "long", "several writes"],
)
def test_messages_without_arrays_arrive_equal(obj: object):
    pickler = Pickler(MIB)
    through(np.zeros(3), pickler)
    got = through(obj, pickler)
    assert got == obj
    if isinstance(obj, list) and obj[0] == ["same"]:
        assert got[0] is got[1] is got[2]


@pytest.mark.parametrize("value", [5, 200, 2.5, True, np.uint8(3)])
def test_an_array_without_dimensions_arrives_with_its_value(value: object):
    sent = np.array(value)
    got = through(sent)
    assert (got, got.dtype, got.shape) == (sent, sent.dtype, ())
    assert got.flags.writeable


def test_what_builders_stand_for_cannot_be_sent_by_mistake():
    pickler = Pickler(MIB)
    got = through([np.ndarray, np.arange(4), torch.Tensor, torch.arange(4)], pickler)
    assert got[0] is np.ndarray
    assert got[2] is torch.Tensor
    assert np.array_equal(got[1], np.arange(4))
    assert torch.equal(got[3], torch.arange(4))


def test_many_arrays_and_shared_ones_keep_their_identity():
    one = np.arange(3)
    a, b, c = through([one, one, np.arange(3)])
    assert a is b
    assert c is not a


def test_large_buffers_come_beside_and_in_order():
    sent = [np.full(MIB, 1, np.uint8), "between", np.full(MIB + 1, 2, np.uint8)]
    main, *buffers = Pickler(MIB).dumps(sent)
    assert [memoryview(b).nbytes for b in buffers] == [MIB, MIB + 1]
    got = loads(main, buffers)
    assert [g[0] for g in (got[0], got[2])] == [1, 2]


def test_a_pickle_of_anybody_is_read_too():
    for protocol in (2, 3, 4, 5):
        assert loads(pickle.dumps({"k": [1, 2]}, protocol)) == {"k": [1, 2]}
    out_of_band = pickle.dumps(pickle.PickleBuffer(b"abc"), 5, buffer_callback=lambda _: False)
    assert bytes(loads(out_of_band, [b"xyz"])) == b"xyz"


def test_a_message_without_arrays_imports_nothing():
    main = Pickler(MIB).dumps({"plain": 1})[0]
    code = (
        "import sys; from refengine.base.serialization import loads;"
        f"assert loads({main!r}) == {{'plain': 1}};"
        "assert not {'numpy', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_the_placeholder_is_never_called():
    with pytest.raises(NotImplementedError):
        serialization.build_array()
