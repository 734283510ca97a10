"""The tiny model as a mocker of engines needs it: no weights, and a letter for each of its tokens.

Dynamo's mocker draws the tokens of an answer at random from the numbers 1000 to 1999, whatever the
model is: nothing can be set that makes them the same again. The tiny model has no such tokens, so
that an answer would be an empty text. Here every token beyond the bytes is written as one letter.
So the text of an answer says how many tokens have come, and nothing of which: an answer that was
cut short is seen, one that got another request's tokens is not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from killpoint.systems.server.environments import tiny_model

LETTER = "x"
VOCABULARY = 2048
"""Number of tokens: more than the mocker draws from."""


def stored(folder: Path) -> Path:
    """The model's folder below ``folder``, written there if it is not there yet.

    Raises:
        CannotWork: it cannot be written.
    """
    return tiny_model.kept(folder, "mocker-llama", files())


def files() -> dict[str, bytes]:
    """Every file of the model, by its name."""
    made = tiny_model.files(0, tiny_model.Shape())
    del made["model.safetensors"]
    config: dict[str, Any] = json.loads(made["config.json"])
    tokenizer: dict[str, Any] = json.loads(made["tokenizer.json"])
    known: dict[str, int] = tokenizer["model"]["vocab"]
    known |= {f"[{number}]": number for number in range(len(known), VOCABULARY)}
    as_letter = {"type": "Replace", "pattern": {"Regex": r"^\[\d+\]$"}, "content": LETTER}
    tokenizer["decoder"] = {"type": "Sequence", "decoders": [as_letter, tokenizer["decoder"]]}
    return made | {
        "config.json": tiny_model.as_json(config | {"vocab_size": VOCABULARY}),
        "tokenizer.json": tiny_model.as_json(tokenizer),
    }
