"""The mocker's model: the tiny one's tokenizer, no weights, a letter for whatever token comes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from killpoint.systems.server.environments import mocker_model, tiny_model

TINY = tiny_model.files(0, tiny_model.Shape())
DRAWN = range(1000, 2000)
"""The tokens that the mocker draws."""


def test_every_token_that_is_drawn_is_written_as_one_letter() -> None:
    tokenizer = json.loads(mocker_model.files()["tokenizer.json"])
    written, as_before = tokenizer["decoder"]["decoders"]
    words = {number: word for word, number in tokenizer["model"]["vocab"].items()}
    for number in DRAWN:
        assert re.sub(written["pattern"]["Regex"], written["content"], words[number]) == "x"
    assert as_before == json.loads(TINY["tokenizer.json"])["decoder"]


def test_prompts_have_the_tokens_that_they_have_by_the_tiny_model() -> None:
    made = mocker_model.files()
    ours, tiny = json.loads(made["tokenizer.json"]), json.loads(TINY["tokenizer.json"])
    known = tiny["model"]["vocab"]
    assert {word: ours["model"]["vocab"][word] for word in known} == known
    assert sorted(ours["model"]["vocab"].values()) == list(range(mocker_model.VOCABULARY))
    assert json.loads(made["config.json"])["vocab_size"] == mocker_model.VOCABULARY
    assert "chat_template" in json.loads(made["tokenizer_config.json"])


def test_it_lies_in_a_folder_without_weights(tmp_path: Path) -> None:
    home = mocker_model.stored(tmp_path)
    assert home == mocker_model.stored(tmp_path)
    assert sorted(path.name for path in home.iterdir()) == sorted(mocker_model.files())
    assert not (home / "model.safetensors").exists()
