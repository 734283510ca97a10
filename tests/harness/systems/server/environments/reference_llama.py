"""A Llama in numpy, one token at a time: what the tiny model answers, and by what margin."""

from __future__ import annotations

from typing import Any

import numpy as np

from killpoint.systems.server.environments.tiny_model import SPECIAL, Shape, Weights


def letters(text: str) -> list[int]:
    """The tokens of a text, one for each byte, as the model's own tokenizer has them."""
    return [len(SPECIAL) + byte for byte in text.encode()]


class Llama:
    def __init__(self, weights: Weights, shape: Shape, dtype: Any) -> None:
        self.w = {name: tensor.astype(dtype) for name, tensor in weights.items()}
        self.shape, self.dtype = shape, dtype
        self.keys: list[list[Any]] = [[] for _ in range(shape.layers)]
        self.values: list[list[Any]] = [[] for _ in range(shape.layers)]
        half = np.arange(0, shape.head, 2) / shape.head
        self.frequency = 1.0 / 10000.0**half
        self.at = 0

    def step(self, token: int) -> Any:
        """The logits after one more token."""
        shape, w = self.shape, self.w
        x = w["model.embed_tokens.weight"][token]
        angle = self.at * self.frequency
        turn = np.concatenate([angle, angle])
        cos, sin = np.cos(turn).astype(self.dtype), np.sin(turn).astype(self.dtype)
        for layer in range(shape.layers):
            name = f"model.layers.{layer}"
            h = _norm(x)
            q = (w[f"{name}.self_attn.q_proj.weight"] @ h).reshape(shape.heads, shape.head)
            k = (w[f"{name}.self_attn.k_proj.weight"] @ h).reshape(shape.kv_heads, shape.head)
            v = (w[f"{name}.self_attn.v_proj.weight"] @ h).reshape(shape.kv_heads, shape.head)
            q, k = q * cos + _half(q) * sin, k * cos + _half(k) * sin
            self.keys[layer].append(k)
            self.values[layer].append(v)
            keys, values = np.array(self.keys[layer]), np.array(self.values[layer])
            group = shape.heads // shape.kv_heads
            mixed = []
            for head in range(shape.heads):
                scores = keys[:, head // group] @ q[head] / self.dtype(shape.head**0.5)
                weight = np.exp(scores - scores.max())
                mixed.append(weight / weight.sum() @ values[:, head // group])
            x = x + w[f"{name}.self_attn.o_proj.weight"] @ np.concatenate(mixed)
            h = _norm(x)
            gate, up = w[f"{name}.mlp.gate_proj.weight"] @ h, w[f"{name}.mlp.up_proj.weight"] @ h
            x = x + w[f"{name}.mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * up)
        self.at += 1
        return w["lm_head.weight"] @ _norm(x)


def _norm(x: Any) -> Any:
    return x / np.sqrt((x * x).mean() + x.dtype.type(1e-5))


def _half(x: Any) -> Any:
    middle = x.shape[-1] // 2
    return np.concatenate([-x[..., middle:], x[..., :middle]], axis=-1)


def answer(model: Llama, prompt: str, tokens: int) -> tuple[list[int], list[float]]:
    """Greedy tokens, and by how much each stands above the second."""
    logits = None
    for token in letters(prompt):
        logits = model.step(token)
    made: list[int] = []
    margins: list[float] = []
    for _ in range(tokens):
        second, first = np.partition(logits, -2)[-2:]
        made.append(int(np.argmax(logits)))
        margins.append(float(first - second))
        logits = model.step(made[-1])
    return made, margins
