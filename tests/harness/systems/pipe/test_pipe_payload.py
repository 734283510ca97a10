"""Tensors of a workload have the dtype, shape, layout and bytes that they were asked for."""

from __future__ import annotations

import pytest
import torch

from killpoint.scenario import DTYPES, LAYOUTS, Tensor
from killpoint.systems.pipe import payload as payload


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_dtype_and_shape_is_built_in_every_layout(layout: str) -> None:
    for dtype in DTYPES:
        for shape in ((), (0,), (1,), (3, 4), (2, 0, 3), (1, 2) * 7):
            built = payload.build(Tensor(dtype, shape, layout), 1, 2, "cpu")
            assert (tuple(built.shape), str(built.dtype)) == (shape, f"torch.{dtype}")
            again = payload.build(Tensor(dtype, shape, layout), 1, 2, "cpu")
            assert payload.digest(built) == payload.digest(again)
            if built.numel():
                before = payload.digest(built)
                assert payload.overwrite(built)
                assert payload.digest(built) != before


def test_layouts_lie_as_they_say() -> None:
    def of(layout: str, dtype: str = "int32") -> torch.Tensor:
        return payload.build(Tensor(dtype, (3, 4), layout), 0, 0, "cpu")

    assert of("plain").is_contiguous()
    assert of("transposed").stride() == (1, 3)
    assert of("stepped").stride() == (8, 2)
    assert of("expanded").stride()[0] == 0
    assert of("offset").storage_offset() == 3
    assert of("conjugate", "complex64").is_conj()
    assert of("grad", "float32").requires_grad


def test_a_digest_is_of_dtype_shape_and_bits() -> None:
    one = torch.arange(6, dtype=torch.int32)
    digests = [
        payload.digest(each)
        for each in (one, one.reshape(2, 3), one.view(torch.float32), one + 1, one.view(3, 2).t())
    ]
    assert len({*digests}) == 5
    assert payload.digest(one.view(3, 2).t()) == payload.digest(one.view(3, 2).t().contiguous())
    nan = torch.tensor([float("nan")])
    assert payload.digest(nan) != payload.digest(-nan)


def test_tensors_of_one_workload_differ() -> None:
    built = [payload.build(Tensor("uint8", (16,)), 0, seq, "cpu") for seq in range(50)]
    assert len({payload.digest(each) for each in built}) == 50


def test_none_and_a_tensor_without_bytes_are_told_apart() -> None:
    assert payload.build(Tensor(form="none"), 0, 0, "cpu") is None
    assert payload.about(None)["digest"] == "none"
    meta = payload.build(Tensor("float32", (4,), form="meta"), 0, 0, "cpu")
    assert payload.about(meta) == {
        "dtype": "float32",
        "shape": [4],
        "device": "meta",
        "bytes": 16,
        "digest": "no bytes",
    }
    assert not payload.overwrite(meta)
