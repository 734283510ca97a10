"""In every topology the server and `refengine generate` give the tokens of the model run alone."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refengine.engine.model.reference import reference_generate
from refengine.engine.model.tokens import encode

from .process import ENVIRONMENT, SECONDS, Client, ask, client_of, ended, ready, serving, until

_REFENGINE = (sys.executable, "-m", "refengine.cli")
_PROMPTS = ["the ring", "the ring buffer has one writer and many readers", "é", "x" * 40]
_MOST = 12
_TOPOLOGIES = {
    "one-worker": (),
    "tensor-parallel": ("--tensor-parallel", "2"),
    "data-parallel": ("--data-parallel", "2"),
    "prefill-apart": ("--prefill", "1"),
}


@pytest.fixture(scope="module")
def alone() -> list[list[int]]:
    """Of each prompt."""
    return [reference_generate(encode(prompt), _MOST) for prompt in _PROMPTS]


_OFTEN = ("one-worker", "prefill-apart")
"""On every commit: that engines of the others give the same tokens is seen elsewhere."""


@pytest.mark.parametrize(
    "topology",
    [
        pytest.param(name, marks=[] if name in _OFTEN else [pytest.mark.full])
        for name in _TOPOLOGIES
    ],
)
def test_the_server_gives_the_tokens_of_the_model_alone(
    topology: str, alone: list[list[int]]
) -> None:
    with serving(*_REFENGINE, "serve", "--port", "0", *_TOPOLOGIES[topology]) as (process, client):
        ready(client)
        status, health = ask(client, "GET", "/health")
        assert (status, health["ready"]) == (200, True)
        assert _whole(client) == alone
        assert _streamed(client) == alone
        if topology == "prefill-apart":
            until(lambda: _imported(client), "KV blocks from the prefill replica")
            assert _whole(client) == alone
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "", "")
    assert not [r for r in health["replicas"] if Path(f"/proc/{r['pid']}").exists()]
    assert not _left_by(process.pid)


@pytest.mark.parametrize(
    "topology",
    [
        pytest.param(name, marks=[pytest.mark.full] if flags else [])
        for name, flags in _TOPOLOGIES.items()
    ],
)
def test_generate_gives_the_tokens_of_the_model_alone(
    topology: str, alone: list[list[int]]
) -> None:
    flags = ("--max-tokens", str(_MOST), "--json", *_TOPOLOGIES[topology])
    once = subprocess.run(
        [*_REFENGINE, "generate", _PROMPTS[0], *flags],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=SECONDS,
        check=False,
    )
    assert (once.returncode, once.stderr) == (0, "")
    assert json.loads(once.stdout)["token_ids"] == alone[0]


def _imported(client: Client) -> bool:
    """Ask something new, and see whether blocks were sent for it, or for what came before."""
    asked = {"prompt": secrets.token_hex(20), "max_tokens": 2}
    assert ask(client, "POST", "/v1/completions", asked)[0] == 200
    client.request("GET", "/metrics")
    metrics = client.getresponse().read().decode()
    return "\nrefengine_imported_total 0.0\n" not in metrics


def _whole(client: Client) -> list[list[int]]:
    asked = {"prompt": _PROMPTS, "max_tokens": _MOST}
    status, answer = ask(client, "POST", "/v1/completions", asked)
    assert status == 200, answer
    assert answer["usage"]["prompt_tokens"] == sum(len(encode(prompt)) for prompt in _PROMPTS)
    return [choice["token_ids"] for choice in answer["choices"]]


def _streamed(client: Client) -> list[list[int]]:
    """All prompts at once, each on a connection of its own."""
    clients = [client_of(f"http://{client.host}:{client.port}") for _ in _PROMPTS]
    for one, prompt in zip(clients, _PROMPTS, strict=True):
        asked = {"prompt": prompt, "max_tokens": _MOST, "stream": True}
        one.request("POST", "/v1/completions", json.dumps(asked))
    texts = [one.getresponse().read().decode() for one in clients]
    for one in clients:
        one.close()
    return [_tokens(text) for text in texts]


def _tokens(text: str) -> list[int]:
    *events, done, _ = text.split("\n\n")
    assert done == "data: [DONE]"
    chunks: list[Any] = [json.loads(event.removeprefix("data: ")) for event in events]
    return [token for chunk in chunks for token in chunk["choices"][0]["token_ids"]]


def _left_by(pid: int) -> list[Path]:
    """What still has the name of that process."""
    return [p for at in ("/tmp", "/dev/shm") for p in Path(at).glob(f"refengine-*-{pid}-*")]
