"""Bytes of tensors, taken and given as they are."""

import ctypes

import pytest
import torch

from refengine.pipe import tensors


def test_plain_bytes_are_copied_in_one_move_that_lets_other_threads_run(
    monkeypatch: pytest.MonkeyPatch,
):
    moves: list[int] = []
    move = ctypes.memmove

    def moved(to: int, of: int, count: int) -> None:
        moves.append(count)
        move(to, of, count)

    monkeypatch.setattr(ctypes, "memmove", moved)
    tensor = torch.arange(6, dtype=torch.int16).view(2, 3)
    for each, expected in ((tensor, [12]), (tensor.t(), [])):
        memory = memoryview(bytearray(12))
        tensors.copy_into(each, memory)
        assert bytes(memory) == each.contiguous().numpy().tobytes()
        assert moves == expected
        moves.clear()
