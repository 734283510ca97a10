"""What the tests of targets share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_calls import ForkedCalls
from package_index import PackageIndex

from killpoint.errors import CannotWork
from killpoint.targets import vllm


@pytest.fixture(autouse=True)
def _socket_paths(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Queues of vLLM's leave their sockets: a folder with a short name that goes with them."""
    with tempfile.TemporaryDirectory(prefix="kp-") as folder:
        monkeypatch.setenv("VLLM_RPC_BASE_PATH", folder)
        yield


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
def package_index(
    tmp_path: Path,
    cache: Path,
    no_pip_settings: None,
    monkeypatch: pytest.MonkeyPatch,
) -> PackageIndex:
    """An index without a network, configured as this machine's only one."""
    made = PackageIndex(tmp_path / "simple")
    monkeypatch.setenv("PIP_INDEX_URL", made.url)
    return made


@pytest.fixture(scope="session")
def forked_calls() -> Iterator[ForkedCalls]:
    """Where processes of these tests are forked."""
    made = ForkedCalls()
    yield made
    made.close()


@pytest.fixture
def elsewhere(forked_calls: ForkedCalls) -> Callable[..., Any]:
    """Call a function in a process of its own, which may import any vLLM, and take its result."""
    return forked_calls.call


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
