"""What is asked for: which releases lie between two, and what makes no sense."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from file_index import file_index

from killpoint.bisection.probe import question
from killpoint.bisection.releases import between
from killpoint.cli import main
from killpoint.errors import CannotWork
from killpoint.targets.published import published

_CASE = "R7/undecodable-message"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of files that lists some releases of vLLM, and has none."""
    file_index(tmp_path, monkeypatch, ("0.9.0", "0.10.0", "0.8.0", "0.9.0rc1", "0.8.5.post1"))


@pytest.mark.usefixtures("index")
def test_between_two_releases_are_the_final_ones_in_order_whichever_is_the_older():
    line, first_is_older = between("vllm==0.10", "0.8", "vllm")
    assert not first_is_older
    releases = ["0.8.0", "0.8.5.post1", "0.9.0", "0.10.0"]
    assert list(line.names) == [f"vllm=={version}" for version in releases]
    assert between("vllm==0.8.0", "vllm==0.9.0", None)[1]


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--good", "vllm==0.8.0", "--bad", "vllm==0.9.1", _CASE], "nearest listed: 0.9.0 and"),
        (["--good", "vllm==0.8.0", "--bad", "vllm==0.11.0", _CASE], "nearest listed: 0.10.0"),
        (["--good", "vllm==0.8", "--bad", "vllm==0.8.0", _CASE], "at both ends"),
        (["--good", "0.8.0", "--bad", "0.9.0", _CASE], "X.Y.Z with --project"),
        (["--good", "refengine", "--bad", "vllm==0.9.0", _CASE], "expected vllm==X.Y.Z"),
        (["--good", "vllm==0.8.0", "--bad", "sglang==0.5.1", _CASE], "of two projects"),
        (["--good", "vllm==0.8.0", "--bad", "vllm==new", _CASE], "Invalid version"),
        (["--good", "vllm==0.8.0", "--bad", "0.9.0", "--project", "sglang", _CASE], "no release"),
        (["--good", "vllm==0.8.0", "--bad", "vllm==0.9.0", "R7/typo"], "no invariant or case"),
        (["--good", "vllm==0.8.0", "--bad", "vllm==0.9.0", "R7"], "expected one of its cases"),
        (["--good", "vllm==0.8.0", "--bad", "vllm==0.9.0", "no.toml"], "cannot be read"),
        (["--good", "vllm==0.8.0", _CASE], "--bad"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["bisect", *words]) == 2
    out, told = capsys.readouterr()
    assert (out, told.count("\n")) == ("", 1), told
    assert expected in told


def test_without_an_index_nothing_can_be_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", tmp_path.as_uri())
    assert main(["bisect", "--good", "vllm==0.8.0", "--bad", "vllm==0.9.0", _CASE]) == 70
    assert "no package index here lists any release" in capsys.readouterr().err


@pytest.mark.network
@pytest.mark.full
def test_the_release_that_fixed_a_message_that_cannot_be_decoded_is_found(
    capsys: pytest.CaptureFixture[str],
):
    try:
        published("vllm")
    except CannotWork as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no releases are listed: {error}")
    ends = ["--project", "vllm", "--bad", "0.18.0", "--good", "0.33.0"]
    assert main(["bisect", *ends, "--json", _CASE]) == 0
    answer = json.loads(capsys.readouterr().out)
    said = f"{_CASE}: violated up to vllm==0.26.0, held from vllm==0.27.0"
    assert answer["sentence"] == said
    assert len(answer["tried"]) <= 2 + 5


def test_of_a_finding_the_case_that_shows_it_best_is_asked() -> None:
    assert question("late-replies").name == "W6/method-raises (late-replies)"
