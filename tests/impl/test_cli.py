"""The command line: what is wrong is one line and a status; what is right is the text."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from refengine.cli import main
from refengine.engine import Delta, EngineFailed, RequestFailed
from refengine.engine.settings import EngineSettings

from .serving.fake_engine import FakeEngine, Script, spelled

APART = ("--tensor-parallel", "2", "--node-timeout", "9")
NODES = ("--nnodes", "2", "--master-address", "127.0.0.1", "--master-port", "9")
RAW = b"caf\xc3\xa9\x1b[2J \xff"


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[FakeEngine]:
    """Those that the command made."""
    return _made(monkeypatch, spelled(RAW))


def _made(monkeypatch: pytest.MonkeyPatch, script: Script | None) -> list[FakeEngine]:
    made: list[FakeEngine] = []

    def make(settings: EngineSettings) -> FakeEngine:
        made.append(FakeEngine(settings, script=script))
        return made[-1]

    monkeypatch.setattr("refengine.engine.Engine", make)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return made


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "COMMAND"),
        (["sreve"], "sreve"),
        (["generate"], "text"),
        (["generate", ""], "empty"),
        (["generate", "a", "--max-tokens", "0"], "--max-tokens"),
        (["generate", "a", "--data-parallel", "x"], "--data-parallel"),
        (["generate", "a", "--data-parallel", "0"], "at least one"),
        (["generate", "a", "--tensor-parallel", "3"], "3 ranks"),
        (["serve", "--device", "tpu"], "--device"),
        (["serve", "--port", "65536"], "--port"),
        (["serve", "--drain", "-1"], "--drain"),
        (["serve", "--front-ends", "0"], "--front-ends"),
        (["serve", "--step-timeout", "0"], "times"),
        (["serve", "--api-key-file", "/dev/null"], "no key"),
        (["serve", "--node-rank", "1"], "no second node"),
        (["serve", "--nnodes", "2"], "--master-address"),
        (["serve", *NODES, "--master-port", "0"], "--master-port"),
        (["serve", *NODES], "need a secret"),
        (["serve", *NODES, "--node-secret-file", "/dev/null"], "need a secret"),
        (["serve", *NODES, "--node-secret-file", __file__, "--node-address", "::1"], "for node 1"),
        (["serve", *NODES, "--node-secret-file", __file__], "even number"),
        (["serve", *NODES, "--node-secret-file", __file__, *APART], "a step has"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], engines: list[FakeEngine]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), words in err) == ("", 1, True), err
    assert not engines


def test_generate_prints_the_text_alone(
    capsys: pytest.CaptureFixture[str], engines: list[FakeEngine]
) -> None:
    assert main(["generate", "abc", "--max-tokens", "100"]) == 0
    assert capsys.readouterr() == (RAW.decode(errors="replace") + "\n", "")
    assert engines[0].prompts == [tuple(b"abc")]
    assert engines[0].closed


def test_generate_tells_tokens_as_json(
    capsys: pytest.CaptureFixture[str], engines: list[FakeEngine]
) -> None:
    assert main(["generate", "abc", "--max-tokens", "4", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"text": "caf\ufffd", "token_ids": list(RAW[:4]), "finish_reason": "length"}
    assert engines[0].closed


def test_a_terminal_is_not_commanded_and_sees_what_goes_on(
    capsys: pytest.CaptureFixture[str], engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["generate", "abc", "--data-parallel", "2"]) == 0
    out, err = capsys.readouterr()
    assert out == "café\ufffd[2J \ufffd\n"
    assert err.startswith("starting 2 replica(s)\nready in ")
    assert "core-0/worker-0" in err


def test_flags_become_settings(engines: list[FakeEngine]) -> None:
    flags = "--tensor-parallel 2 --data-parallel 3 --prefill 1 --block-size 8 --no-restart"
    more = "--kv-lease 2.5 --model-seed 9"
    assert main(["generate", "a", *flags.split(), *more.split()]) == 0
    settings = engines[0].settings
    assert (settings.tensor_parallel, settings.data_parallel, settings.prefill) == (2, 3, 1)
    assert (settings.block_size, settings.restart, settings.kv_lease) == (8, False, 2.5)
    assert settings.size.seed == 9
    assert settings.device == "cpu"


def test_an_engine_that_does_not_start_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: EngineSettings) -> None:
        raise EngineFailed("core-0", "no\nmemory")

    monkeypatch.setattr("refengine.engine.Engine", fail)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert main(["generate", "a"]) == 70
    expected = "refengine could not do its work: core-0 cannot serve: no memory\n"
    assert capsys.readouterr() == ("", expected)


def test_a_text_that_can_never_be_served_is_bad_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _made(monkeypatch, None)

    def refuse(*_: object) -> None:
        raise ValueError("it never fits")

    monkeypatch.setattr(FakeEngine, "submit", refuse)
    assert main(["generate", "a"]) == 2
    assert capsys.readouterr() == ("", "refengine generate: it never fits\n")
    assert made[0].closed


def test_a_request_that_fails_is_one_line_and_the_engine_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _made(monkeypatch, None)
    _when_submitted(monkeypatch, lambda stream: stream.put(RequestFailed("r", "core-0 died")))
    assert main(["generate", "a"]) == 70
    assert "core-0 died" in capsys.readouterr().err
    assert made[0].closed


def test_a_reader_that_has_enough_is_no_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _made(monkeypatch, None)

    def enough(_: str) -> None:
        raise BrokenPipeError

    _when_submitted(monkeypatch, lambda stream: stream.put(Delta((65,))))
    monkeypatch.setattr("refengine.cli._write", enough)
    monkeypatch.setattr("os.dup2", lambda *_: None)
    assert main(["generate", "a"]) == 70
    assert capfd.readouterr() == ("", "")
    assert made[0].closed


def _when_submitted(monkeypatch: pytest.MonkeyPatch, then: Callable[[Any], None]) -> None:
    submit = FakeEngine.submit

    def submit_then(self: FakeEngine, *args: Any, **more: Any) -> Any:
        stream = submit(self, *args, **more)
        then(stream)
        return stream

    monkeypatch.setattr(FakeEngine, "submit", submit_then)


def test_help_needs_neither_torch_nor_a_web_server() -> None:
    script = (
        "import sys\n"
        "for name in ('torch', 'starlette', 'uvicorn', 'prometheus_client', 'numpy'):\n"
        "    sys.modules[name] = None\n"
        "from refengine.cli import main\n"
        "main(['serve', '--help'])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "--tensor-parallel" in ended.stdout
    assert "--api-key-file" in ended.stdout
