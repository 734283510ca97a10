"""An engine whose workers run on two nodes: the same tokens, and an end on both (SPEC E2, L1)."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from refengine.engine.settings import EngineSettings
from refengine.executor import NodeSettings
from refengine.node_flags import SECRET

from ..executor.nodes.pairs import SECRET as KNOWN
from ..executor.nodes.pairs import nodes
from ..roles import leftovers
from .engines import PATIENCE, PROMPTS, engine, expected, nothing_is_left


def test_two_nodes_give_the_tokens_of_the_model_alone_and_leave_nothing():
    """The follower is the command, which so is tried, too."""
    settings = nodes()
    place = ["--master-address", settings.head, "--master-port", str(settings.port)]
    command = [sys.executable, "-m", "refengine.cli", "serve", "--nnodes", "2", "--node-rank", "1"]
    environment = os.environ | {SECRET: KNOWN.decode()}
    with subprocess.Popen([*command, *place], env=environment, stdout=subprocess.PIPE) as follower:
        try:
            with engine(tensor_parallel=2, nodes=settings) as made:
                streams = [made.submit(prompt, 24) for prompt in PROMPTS]
                for stream, prompt in zip(streams, PROMPTS, strict=True):
                    assert stream.result(PATIENCE).tokens == expected(prompt)
                assert made.health().ready
                parts = made.parts()
                assert sorted(parts) == ["core-0", "core-0/worker-0"]
            assert follower.wait(PATIENCE) == 0
        finally:
            follower.kill()
    nothing_is_left(parts.values())
    assert leftovers(os.getpid()) == leftovers(follower.pid) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tensor_parallel": 1}, "even number"),
        ({"data_parallel": 2}, "one replica"),
        ({"prefill": 1}, "one replica"),
        ({"step_timeout": 9.4}, "a step has"),
    ],
)
def test_an_engine_that_cannot_be_parted_is_refused(given, words):
    place = NodeSettings("127.0.0.1", 1, KNOWN)
    with pytest.raises(ValueError, match=words):
        EngineSettings(**({"tensor_parallel": 2, "nodes": place} | given))


def test_nothing_is_started_anew_on_two_nodes():
    place = NodeSettings("127.0.0.1", 1, KNOWN)
    assert EngineSettings().restarts
    assert not EngineSettings(tensor_parallel=2, nodes=place).restarts
