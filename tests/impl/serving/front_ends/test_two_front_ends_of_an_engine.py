"""Two front ends of a real engine: its tokens, its blocks, and its end."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from refengine.engine.model.reference import reference_generate
from refengine.engine.model.tokens import encode

from ..process import ready, serving, until
from .server import Streamed, Tree, client_of, metrics, pids, states

_SERVE = (sys.executable, "-m", "refengine.cli", "serve", "--port", "0", "--front-ends", "2")
_NAMES = ("front-end-0", "front-end-1")
_PROMPT = "the ring 4"
_LONG = {"prompt": _PROMPT, "max_tokens": 3000}
"""Its answer has 276 tokens."""


def test_tokens_blocks_and_the_end_with_the_engine_s_process(tmp_path: Path) -> None:
    segments = set(Path("/dev/shm").iterdir())
    with serving(*_SERVE, TMPDIR=str(tmp_path)) as (process, client):
        ready(client)
        until(lambda: set(states(client).values()) == {"ready"}, "both front ends")
        alone = reference_generate(encode(_PROMPT), 12)
        for name in _NAMES:
            with client_of(client, name) as one:
                assert Streamed(one, prompt=_PROMPT, max_tokens=12).rest().tokens == alone
        with client_of(client, "front-end-0") as one:
            struck = pids(client)["front-end-0"]
            torn = Streamed(one, **_LONG)
            os.kill(struck, signal.SIGKILL)
            began = time.monotonic()
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                torn.rest()
        assert torn.tokens[:12] == alone[: len(torn.tokens)]
        assert (torn.finish, torn.done) == (None, False)
        until(lambda: "\nrefengine_requests_open 0.0\n" in metrics(client), "its place to be free")
        until(lambda: 'running{replica="core-0"} 0.0' in metrics(client), "its blocks to be free")
        assert time.monotonic() - began < 10
        with contextlib.closing(Tree.of(process.pid)) as tree:
            began = time.monotonic()
            process.kill()
            until(lambda: not tree.alive(), "every process to be gone")
            assert time.monotonic() - began < 10
        with pytest.raises(ConnectionRefusedError):
            http.client.HTTPConnection(client.host, client.port).connect()
    until(lambda: not list(tmp_path.glob("refengine-*")), "its files to be gone")
    of_it = [f"-{pid}-" for pid in tree.pidfds]
    left = set(Path("/dev/shm").iterdir()) - segments
    assert not [path for path in left if any(part in path.name for part in of_it)]
