"""What the tests of targets share."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from vllm_shelf import Shelf, serve

from killpoint.errors import CannotWork
from killpoint.targets import vllm


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's own."""
    monkeypatch.setenv("KILLPOINT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_pip_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the machine's own settings."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


@pytest.fixture
def shelf(
    tmp_path: Path,
    cache: Path,
    no_pip_settings: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Shelf:
    """An index without a network, configured as this machine's only one."""
    made = Shelf(tmp_path / "simple")
    monkeypatch.setenv("PIP_INDEX_URL", made.url)
    return made


@pytest.fixture
def elsewhere() -> Iterator[Callable[..., Any]]:
    """Call a function in a fresh interpreter, which may import any vLLM, and take its result."""
    context = multiprocessing.get_context("spawn")
    started: list[Any] = []

    def call(role: Callable[..., Any], *arguments: Any) -> Any:
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(role, arguments, theirs))
        process.start()
        started.append(process)
        theirs.close()
        assert ours.poll(60), f"{role.__name__} did not end within 60 s"
        worked, result = ours.recv()
        assert worked, result
        process.join(10)
        return result

    yield call
    for process in started:
        if process.is_alive():
            process.kill()
        process.join()


@pytest.fixture
def published() -> Callable[[str], str]:
    """Resolve a real release; without a network the test is skipped, but never where CI is set."""

    def resolve(version: str) -> str:
        try:
            return vllm.resolve(f"vllm=={version}")
        except CannotWork as error:
            if os.environ.get("CI") or "no package index" not in str(error):
                raise
            pytest.skip(f"no package index: {error}")

    return resolve
