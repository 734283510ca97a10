"""A tiny causal model, made from a seed: a real engine under test loads it without a download.

A Llama of some 0.4 million parameters with a tokenizer of single bytes. Nothing here needs torch,
a tokenizer library or the network: the files are written as their formats say. The weights come
from SHAKE-256, so that a seed gives the same bytes on every machine and with every library.

Attention is sharp and weighs as much as the last token, so that an answer depends on the whole
prompt and its tokens fall into no short cycle. Only printable characters are answered; the logit
of the end of text is 0 while the best is far above it, so that an answer ends where the client's
``max_tokens`` says. For the prompts listed here the best token stands so far above the second, at
each of the first 512, that no order of summation (no batch, no split over workers) flips one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from killpoint.errors import CannotWork

Weights = dict[str, NDArray[np.float32]]

CONTEXT = 4096
"""Tokens, of prompt and answer together."""
SPECIAL = ("<s>", "</s>", "<unk>")
VOCABULARY = 512
"""Rows of the embedding; those beyond the bytes are unused."""
ANSWERS = range(len(SPECIAL) + ord(" "), len(SPECIAL) + ord("~") + 1)
"""Tokens that are ever chosen: the printable characters, so that a character is a token."""
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)

PROMPTS = (
    "Tell me about a fox.",
    "Tell me about a quiet harbour.",
    "Tell me about the blue door.",
    "What became of the lighthouse?",
    "What became of the north wind?",
    "What became of a glass tower?",
    "What became of the blue door?",
    "Describe a fox to a child.",
    "Describe seven bells to a child.",
    "Describe a glass tower to a child.",
    "Why does nobody speak of the lighthouse?",
    "Why does nobody speak of an old map?",
    "Why does nobody speak of seven bells?",
    "Why does nobody speak of the north wind?",
)
"""Prompts whose answers, by seed 0, have wide margins at each of the first 512 tokens."""


class Shape(msgspec.Struct, frozen=True):
    """Size of the model, and the scales of its parts; heads can be split in two."""

    hidden: int = 128
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head: int = 32
    feed_forward: int = 256
    query: float = 6.0
    """Scale of the queries: the larger, the sharper attention is."""
    attention: float = 4.0
    """Scale of attention's contribution to the stream."""
    mixing: float = 1.0
    """Scale of the feed-forward part's contribution."""


def stored(folder: Path, seed: int = 0, shape: Shape | None = None) -> Path:
    """The model's folder below ``folder``, written there if it is not there yet.

    Raises:
        CannotWork: it cannot be written.
    """
    return kept(folder, f"tiny-llama-{seed}", files(seed, shape or Shape()))


def kept(folder: Path, name: str, made: dict[str, bytes]) -> Path:
    """A folder of these files below ``folder``, named by what is in them.

    It appears whole or not at all; another process that makes the same one makes the same bytes.

    Raises:
        CannotWork: it cannot be written.
    """
    digest = hashlib.sha256(b"".join(made[each] for each in sorted(made))).hexdigest()[:12]
    home = folder / f"{name}-{digest}"
    if home.is_dir():
        return home
    try:
        folder.mkdir(parents=True, exist_ok=True)
        incoming = Path(tempfile.mkdtemp(prefix="incoming-", dir=folder))
        try:
            for each, content in made.items():
                _write(incoming / each, content)
            incoming.chmod(0o755)
            incoming.rename(home)
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
    except OSError as error:
        if home.is_dir():  # another process came first
            return home
        raise CannotWork(f"the tiny model cannot be written to {folder}: {error}") from error
    return home


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def files(seed: int, shape: Shape) -> dict[str, bytes]:
    """Every file of the model, by its name."""
    ends = {"bos_token_id": 0, "eos_token_id": 1}
    return {
        "config.json": as_json(_config(shape) | ends),
        "generation_config.json": as_json(ends),
        "tokenizer.json": as_json(_tokenizer()),
        "tokenizer_config.json": as_json(_tokenizer_config()),
        "model.safetensors": safetensors(weights(seed, shape)),
    }


def weights(seed: int, shape: Shape) -> Weights:
    """Every tensor, by the name that a Llama's checkpoint gives it."""
    draw = _Source(seed)
    queries, values = shape.heads * shape.head, shape.kv_heads * shape.head
    made: Weights = {"model.embed_tokens.weight": draw.matrix(VOCABULARY, shape.hidden, 1.0)}

    def linear(name: str, rows: int, columns: int, scale: float) -> None:
        made[f"{name}.weight"] = draw.matrix(rows, columns, scale / columns**0.5)

    for layer in range(shape.layers):
        at = f"model.layers.{layer}"
        made[f"{at}.input_layernorm.weight"] = np.ones(shape.hidden, np.float32)
        made[f"{at}.post_attention_layernorm.weight"] = np.ones(shape.hidden, np.float32)
        linear(f"{at}.self_attn.q_proj", queries, shape.hidden, shape.query)
        linear(f"{at}.self_attn.k_proj", values, shape.hidden, 1.0)
        linear(f"{at}.self_attn.v_proj", values, shape.hidden, 1.0)
        linear(f"{at}.self_attn.o_proj", shape.hidden, queries, shape.attention)
        linear(f"{at}.mlp.gate_proj", shape.feed_forward, shape.hidden, 1.0)
        linear(f"{at}.mlp.up_proj", shape.feed_forward, shape.hidden, 1.0)
        linear(f"{at}.mlp.down_proj", shape.hidden, shape.feed_forward, shape.mixing)
    made["model.norm.weight"] = np.ones(shape.hidden, np.float32)
    linear("lm_head", VOCABULARY, shape.hidden, 4.0)
    made["lm_head.weight"][: min(ANSWERS)] = 0
    made["lm_head.weight"][max(ANSWERS) + 1 :] = 0
    return made


class _Source:
    """Numbers that look normally distributed, of a variance of 1, the same ones everywhere."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn = 0

    def matrix(self, rows: int, columns: int, scale: float) -> NDArray[np.float32]:
        """The next numbers: each the sum of eight bytes, which is exact, then scaled."""
        self._drawn += 1
        stream = hashlib.shake_256(f"killpoint tiny model {self._seed} {self._drawn}".encode())
        drawn = np.frombuffer(stream.digest(rows * columns * 8), np.uint8)
        sums = drawn.reshape(rows, columns, 8).sum(axis=2, dtype=np.int64) - 8 * 127.5
        deviation = (8 * (256**2 - 1) / 12) ** 0.5
        return (sums * (scale / deviation)).astype(np.float32)


def safetensors(tensors: Weights) -> bytes:
    """A safetensors file: the length of the header, the header as JSON, the bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.nbytes],
        }
        at += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(tensor.astype("<f4").tobytes() for tensor in tensors.values())
    return len(text).to_bytes(8, "little") + text + body


def _config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head,
        "intermediate_size": shape.feed_forward,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "dtype": "float32",
        "torch_dtype": "float32",
        "use_cache": True,
    }


def _tokenizer() -> dict[str, Any]:
    """One token for each byte, in the format of a tokenizer library."""
    added = [
        {
            "id": number,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, text in enumerate(SPECIAL)
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": level | {"use_regex": False},
        "post_processor": None,
        "decoder": level | {"use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text: number for number, text in enumerate((*SPECIAL, *_letters()))},
            "merges": [],
        },
    }


def _letters() -> Iterator[str]:
    """The letter that stands for each byte: itself where it can be printed, else one above."""
    beyond = 256
    for byte in range(256):
        if 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174:
            yield chr(byte)
        else:
            yield chr(beyond)
            beyond += 1


def _tokenizer_config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE,
    }


def as_json(value: dict[str, Any]) -> bytes:
    """A file of the model, as text."""
    return json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"
