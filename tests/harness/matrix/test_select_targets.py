from pathlib import Path

import pytest
from file_index import file_index
from packaging.version import Version

from killpoint.errors import BadUsage
from killpoint.matrix.select_targets import COLUMNS, LANDMARKS, targets, thinned


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of files: vLLM 0.8.0 to 0.34.0, and no SGLang."""
    file_index(tmp_path, monkeypatch, ("0.8.0", "0.8.5.post1", "0.9.0rc1", "0.34.0", "0.9.0"))


def test_there_are_twelve_landmarks_and_more_from_the_oldest_to_the_newest():
    assert len(LANDMARKS) >= 12
    assert list(LANDMARKS) == sorted(LANDMARKS, key=Version)
    assert next(iter(LANDMARKS)) == "0.8.0"


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    ("asked", "releases"), [(None, [*COLUMNS]), (str(len(LANDMARKS) + 1), [*LANDMARKS])]
)
def test_the_default_is_the_reference_some_releases_and_what_is_newer_and_sglang(
    asked: str | None, releases: list[str]
):
    chosen = targets(None, asked)
    assert chosen[0] == "refengine"
    assert chosen[1:-1] == [f"vllm=={version}" for version in (*releases, "0.34.0")]
    assert chosen[-1].startswith("sglang==0.5.")


@pytest.mark.usefixtures("index")
def test_a_range_has_every_release_but_those_withdrawn_or_not_yet_made():
    between = targets([], "vllm:0.8..0.33")
    assert between == ["vllm==0.8.0", "vllm==0.8.5.post1", "vllm==0.9.0"]
    assert targets([], "vllm:0.9.0..") == ["vllm==0.9.0", "vllm==0.34.0"]


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("some", "expected a number, or PROJECT"),
        ("0", "expected a number"),
        ("own:1..2", "no such project; expected: vllm"),
        ("vllm:x..", "expected X.Y.Z..X.Y.Z"),
        ("vllm:0.10..0.20", "no release lies there"),
    ],
)
def test_a_range_that_is_none_is_told(text: str, words: str):
    with pytest.raises(BadUsage, match=words):
        targets([], text)


def test_named_targets_are_all_there_is_and_each_is_there_once():
    assert targets(["refengine", "own:Queue", "refengine"], None) == ["refengine", "own:Queue"]


def test_fewer_are_spread_from_the_first_to_the_last():
    all = list("abcdefghi")
    assert thinned(all, 3) == ["a", "e", "i"]
    assert thinned(all, 1) == ["i"]
    assert thinned(all, 20) == all
