"""The pins with hashes are those of the constraints, and each section is whole."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
BUILD = ["pip", "hatchling", "editables"]


def sections(name: str) -> list[list[str]]:
    """Pins of a file in ``ci/``: what all need, what tests need, torch and what it asks for."""
    blocks = (ROOT / "ci" / name).read_text("utf-8").split("\n\n")
    return [re.findall(r"^([\w.-]+==[^\s+]+) *(?:--|$)", block, re.MULTILINE) for block in blocks]


def asked_for(requirements: list[str]) -> set[str]:
    """What these ask for on this machine, directly or not; what torch asks for is its build's."""
    todo, seen = [Requirement(each) for each in requirements], set[tuple[str, frozenset[str]]]()
    while todo:
        each = todo.pop()
        key = str(canonicalize_name(each.name)), frozenset(each.extras)
        if key in seen:
            continue
        seen.add(key)
        for text in (requires(each.name) or []) if each.name != "torch" else []:
            more = Requirement(text)
            if more.marker is None or any(
                more.marker.evaluate({"extra": extra}) for extra in ("", *each.extras)
            ):
                todo.append(more)
    return {name for name, _ in seen}


@pytest.fixture
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_both_files_pin_the_same_and_each_row_has_a_hash() -> None:
    assert sections("hashes.txt") == sections("constraints.txt")
    rows = (ROOT / "ci" / "hashes.txt").read_text("utf-8").splitlines()
    pins = [row for row in rows if row and not row.startswith("#")]
    assert all(re.search(r" --hash=sha256:[0-9a-f]{64}( |$)", row) for row in pins)


def test_what_is_asked_for_is_pinned_and_linters_are_left_out_of_a_run(project: dict) -> None:
    run, dev, torch = (
        {pin.partition("==")[0] for pin in each} for each in sections("constraints.txt")
    )
    extras = project["optional-dependencies"]
    needed = asked_for([*project["dependencies"], *extras["reference"], *extras["engines"], *BUILD])
    linters = [each for each in extras["dev"] if not each.startswith("killpoint[")]
    assert needed <= run | torch
    assert asked_for(linters) <= run | torch | dev
    assert not dev & needed


def test_workflows_name_actions_by_commit() -> None:
    files = [*(ROOT / "ci" / "workflows").glob("*.yml"), *(ROOT / "docs").glob("*.md")]
    used = [
        line
        for file in files
        for line in re.findall(r"^ *(?:- )?uses: (.*)", file.read_text("utf-8"), re.MULTILINE)
    ]
    assert len(used) > 5
    for line in used:
        assert re.match(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
