"""The tiny model: the same bytes everywhere, answers that depend on the prompt, no near ties."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference_llama import Llama, answer, letters

from killpoint.errors import CannotWork
from killpoint.systems.server.environments.tiny_model import (
    ANSWERS,
    CONTEXT,
    PROMPTS,
    VOCABULARY,
    Shape,
    files,
    stored,
    weights,
)

SHAPE = Shape()
ROUNDING = 1e-4
"""More than float32 moves any logit of this model."""


def _digest(seed: int) -> str:
    made = files(seed, SHAPE)
    return hashlib.sha256(b"".join(made[name] for name in sorted(made))).hexdigest()


def test_a_seed_gives_the_same_bytes_on_every_machine() -> None:
    assert _digest(0) == "0d6e63b7b5fe51084f21cd864d0b68bf0497eded4df2521aabedec61f6652c36"
    assert _digest(1) != _digest(0)


def test_the_checkpoint_holds_what_the_configuration_says() -> None:
    made = files(0, SHAPE)
    length = int.from_bytes(made["model.safetensors"][:8], "little")
    header = json.loads(made["model.safetensors"][8 : 8 + length])
    body = made["model.safetensors"][8 + length :]
    del header["__metadata__"]
    config = json.loads(made["config.json"])
    assert header["lm_head.weight"]["shape"] == [config["vocab_size"], config["hidden_size"]]
    assert config["max_position_embeddings"] == CONTEXT
    at = 0
    for name, tensor in weights(0, SHAPE).items():
        begin, end = header[name]["data_offsets"]
        assert begin == at
        assert body[begin:end] == tensor.tobytes()
        at = end
    assert at == len(body)
    assert sum(np.prod(each["shape"]) for each in header.values()) < 500_000


def test_every_byte_is_a_token_of_its_own() -> None:
    tokenizer = json.loads(files(0, SHAPE)["tokenizer.json"])
    vocabulary = tokenizer["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(3 + 256))
    assert [vocabulary[letter] for letter in "az~!"] == letters("az~!")
    assert vocabulary["\u0120"] == letters(" ")[0]  # how tokenizers of bytes write a space
    assert max(vocabulary.values()) < VOCABULARY


def test_two_prompts_that_differ_in_one_letter_have_different_answers() -> None:
    drawn = weights(0, SHAPE)
    mine, _ = answer(Llama(drawn, SHAPE, np.float64), "Tell me about a fox.", 60)
    other, _ = answer(Llama(drawn, SHAPE, np.float64), "tell me about a fox.", 60)
    assert sum(one == two for one, two in zip(mine, other, strict=True)) < 20
    assert len(set(zip(mine, mine[1:], mine[2:], strict=False))) > 45  # no short cycle


@pytest.mark.parametrize("prompt", PROMPTS[:3])
def test_no_rounding_makes_another_token_the_best(prompt: str) -> None:
    drawn = weights(0, SHAPE)
    exact, margins = answer(Llama(drawn, SHAPE, np.float64), prompt, 100)
    single, rounded = answer(Llama(drawn, SHAPE, np.float32), prompt, 100)
    assert single == exact
    assert set(exact) <= set(ANSWERS)  # the end of text among those that are not
    assert max(abs(one - two) for one, two in zip(margins, rounded, strict=True)) < ROUNDING
    assert min(margins) > 40 * ROUNDING


@pytest.mark.full
@pytest.mark.parametrize("prompt", PROMPTS)
def test_each_listed_prompt_has_wide_margins_to_the_end(prompt: str) -> None:
    _, margins = answer(Llama(weights(0, SHAPE), SHAPE, np.float64), prompt, 512)
    assert min(margins) > 40 * ROUNDING


def test_it_is_written_once(tmp_path: Path) -> None:
    home = stored(tmp_path)
    before = (home / "model.safetensors").stat()
    assert stored(tmp_path) == home
    assert (home / "model.safetensors").stat().st_ino == before.st_ino
    assert sorted(path.name for path in home.iterdir()) == sorted(files(0, SHAPE))
    assert [path.name for path in tmp_path.iterdir()] == [home.name]


def test_an_unfinished_one_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "incoming-killed").mkdir()
    home = stored(tmp_path)
    assert (home / "config.json").is_file()


def test_many_that_want_it_at_once_all_have_it(tmp_path: Path) -> None:
    homes: list[Path] = []
    threads = [threading.Thread(target=lambda: homes.append(stored(tmp_path))) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(homes) == 6
    assert len({str(home) for home in homes}) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_whoever_comes_second_has_the_first_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder = tempfile.mkdtemp

    def first_somebody_else(**given: Any) -> str:
        monkeypatch.undo()
        stored(tmp_path)
        return make_folder(**given)

    monkeypatch.setattr(tempfile, "mkdtemp", first_somebody_else)
    home = stored(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [home.name]


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWork, match=r"the tiny model cannot be written to .*file"):
        stored(tmp_path / "file")
