"""Dynamo: what its spec gives, what is not judged of it, and, in earnest, that it is played."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from killpoint.errors import BadUsage, CannotWork
from killpoint.findings.attribution import entries_of, projects_of
from killpoint.judgement.judge import judge
from killpoint.systems.server import target
from killpoint.systems.server.environments import beside, dynamo, locks, made, program, store
from killpoint.systems.server.program import ServerProgram
from killpoint.systems.server.target import HasServer
from killpoint.targets.registry import build

RELEASE = dynamo.release()
BASE = f"cpu-torch-2.13.0+cpu-py{locks.own_python()}"
OWN = f"{RELEASE.replace('==', '-')}-py{locks.own_python()}"


def _silent(text: str) -> None:
    raise AssertionError(f"told {text!r} of what is there")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which the environments lie, as far as their records go."""
    monkeypatch.setenv("KILLPOINT_CACHE", str(tmp_path))
    for name, note in ((BASE, "torch 2.13.0+cpu"), (OWN, "without aisimulate")):
        home = tmp_path / "environments" / name
        home.mkdir(parents=True)
        record = store.Record(name, 1, 1.0, 1, (note,))
        (home / "environment.json").write_bytes(msgspec.json.encode(record))
    return tmp_path / "environments"


@pytest.fixture
def found(cache: Path) -> ServerProgram:
    assert cache.is_dir()
    return program(RELEASE, True, _silent)


def test_it_is_started_by_two_command_lines_and_ours_before_them(
    found: ServerProgram, cache: Path, tmp_path: Path
) -> None:
    python, script, *words = found.argv("tensor-parallel", 8123, tmp_path)
    assert Path(script) == Path(beside.__file__)
    assert python == str(cache / BASE / "bin" / "python")
    cut = words.index("--")
    front, mocker = words[:cut], words[cut + 1 :]
    assert " ".join(front) == (
        f"{python} -m dynamo.frontend --discovery-backend file"
        " --http-host 127.0.0.1 --http-port 8123"
    )
    assert mocker[:5] == [python, "-m", "dynamo.mocker", "--discovery-backend", "file"]
    assert mocker[5] == "--model-path"
    assert Path(mocker[6], "tokenizer.json").is_file()
    assert mocker[7:] == ["--model-name", "tiny", "--max-model-len", "4096"]
    two = found.argv("data-parallel", 8123, tmp_path)
    assert two == [python, script, *front, "--", *mocker, "--", *mocker]
    apart = " ".join(found.argv("apart", 8123, tmp_path)).split(" -- ")
    assert [each.endswith(how) for each, how in zip(apart[1:], ("decode", "prefill"), strict=True)]
    assert not found.plays_in("front-ends")


def test_its_parts_find_each_other_by_a_folder_of_the_play(
    found: ServerProgram, cache: Path, tmp_path: Path
) -> None:
    variables = found.variables(1, tmp_path)
    assert variables["PYTHONPATH"] == str(cache / OWN)
    assert variables["DYN_FILE_KV"] == f"{tmp_path}/kv"
    assert variables["HF_HUB_OFFLINE"] == "1"
    assert variables["DYN_SYSTEM_PORT"] == variables["PYTHONFAULTHANDLER"] == ""


def test_its_parts_are_told_apart(found: ServerProgram, tmp_path: Path) -> None:
    words = found.argv("apart", 8123, tmp_path)
    first = words.index("--")
    second = words.index("--", first + 1)
    titles = {
        "helper": f"python {' '.join(words)}",  # the keeper has the whole command line
        "core": f"python {' '.join(words[first + 1 : second])}",
        "prefill": f"python3.11 {' '.join(words[second + 1 :])}",
    }
    for kind, title in titles.items():
        matching = [each for each, pattern in found.titles.items() if re.search(pattern, title)]
        assert matching[0] == kind


def test_the_card_says_what_its_workers_are_and_who_ends_them(found: ServerProgram) -> None:
    assert (found.name, found.version) == ("dynamo", RELEASE.partition("==")[2])
    text = "\n".join(found.notes)
    for words in ("mocker", "random", "killpoint's own launcher", "aisimulate", "torch 2.13"):
        assert words in text


def test_what_random_tokens_and_our_keeper_hide_is_not_judged(found: ServerProgram) -> None:
    assert set(found.unjudged) == {"E2", "E8", "E10"}
    assert "random" in found.unjudged["E2"]
    assert not found.disclaims  # its documents say nothing of the kind


def test_it_is_nothing_of_vllms(cache: Path) -> None:
    assert cache.is_dir()
    assert not target.is_vllm(f"serve:{RELEASE}")
    assert projects_of(f"serve:{RELEASE}") == set()
    assert entries_of(f"serve:{RELEASE}") == []
    assert target.release(f"serve:{RELEASE}") == RELEASE.partition("==")[2]
    built = build(f"serve:{RELEASE}")
    assert isinstance(built, HasServer)
    with pytest.raises(BadUsage, match=r"in vLLM's alone"):
        target.resolve(f"serve:{RELEASE}~orphan-core")


def test_it_lies_in_the_environment_that_is_shared_and_a_folder_of_its_own(cache: Path) -> None:
    assert cache.is_dir()
    assert [each.record.name for each in made(RELEASE, True, _silent)] == [OWN, BASE]


@pytest.mark.parametrize("spec", ["dynamo==0.1", "dynamo=="])
def test_another_release_has_no_pins(spec: str, cache: Path) -> None:
    assert cache.is_dir()
    with pytest.raises(BadUsage, match=f"(no pins for it, expected {RELEASE})|no such folder"):
        program(spec, False, _silent)


def test_offline_it_is_not_fetched(cache: Path) -> None:
    (cache / OWN / "environment.json").unlink()
    with pytest.raises(
        CannotWork, match=f"is not fetched offline; .*killpoint environment {RELEASE}"
    ):
        program(RELEASE, True, _silent)


def test_the_lock_has_what_dynamo_needs_and_nothing_that_the_shared_one_has() -> None:
    mine = {each.name: each.version for each in locks.load("dynamo").packages}
    shared = {(each.name, each.version) for each in locks.load("cpu").packages}
    assert mine["ai-dynamo"] == mine["ai-dynamo-runtime"] == RELEASE.partition("==")[2]
    assert {"kubernetes", "redis", "zstandard"} <= mine.keys()
    assert "aisimulate" not in mine
    assert not mine.items() & shared


@pytest.mark.full
@pytest.mark.network
def test_it_is_played_in_earnest() -> None:
    found = judge(f"serve:{RELEASE}", ["E7/undisturbed", "E2/undisturbed"], jobs=1)
    cases = {each.id: each for verdict in found.verdicts for each in verdict.cases}
    assert cases["E7/undisturbed"].outcome == "held"
    assert cases["E2/undisturbed"].outcome == "unsupported"
    assert "drawn at random" in cases["E2/undisturbed"].cause
