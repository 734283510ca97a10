"""vLLM's process group is served as it is, wherever a release or a tree has one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from package_index import FOLDER, QUEUE, PackageIndex

from killpoint.errors import CannotWork
from killpoint.targets import vllm
from killpoint.targets.protocol import GroupShape, UnsupportedByTarget
from killpoint.targets.vllm.adapter import VllmTarget
from killpoint.targets.vllm.loading.stubs import is_torch_equal_or_newer, tcp_uri

GROUP = """
import vllm.envs
from vllm.logger import init_logger
SERVED = __file__
class StatelessProcessGroup:
    def __init__(self, *arguments): self.arguments = arguments
    @staticmethod
    def create(host, port, rank, world_size, {limits}): ...
    def barrier(self{timeout}): ...
"""


def tree(root: Path, group: str) -> str:
    (root / FOLDER).mkdir(parents=True)
    (root / FOLDER / "shm_broadcast.py").write_text(QUEUE)
    (root / "vllm" / "distributed" / "utils.py").write_text(group)
    return f"vllm@{root}"


def features(root: Path, limits: str, timeout: str) -> tuple[bool, bool, bool]:
    target = vllm.build(vllm.resolve(tree(root, GROUP.format(limits=limits, timeout=timeout))))
    assert isinstance(target, VllmTarget)
    found = target.features
    return "group" in target.capabilities, found.store_timeout, found.barrier_timeout


def test_what_a_group_offers_is_read_off_its_file(tmp_path: Path) -> None:
    assert features(tmp_path / "a", "expire=1", "") == (True, False, False)
    assert features(tmp_path / "b", "store_timeout=1", "") == (True, True, False)
    assert features(tmp_path / "c", "store_timeout=1", ", timeout=30") == (True, True, True)


def test_a_file_without_a_group_makes_no_group(tmp_path: Path) -> None:
    target = vllm.build(vllm.resolve(tree(tmp_path, "class Other: ...")))
    assert "group" not in target.capabilities


def served(spec: str) -> tuple[str, int]:
    target = vllm.build(spec)
    assert isinstance(target, VllmTarget)
    target.load()
    import sys

    threads = len(list(Path("/proc/self/task").iterdir()))
    return sys.modules["vllm.distributed.utils"].SERVED, threads


def test_the_groups_file_runs_where_it_lies_and_starts_no_thread(
    tmp_path: Path, elsewhere: Callable[..., Any]
) -> None:
    spec = tree(tmp_path, GROUP.format(limits="store_timeout=1", timeout=""))
    assert elsewhere(served, spec) == (str(tmp_path / "vllm" / "distributed" / "utils.py"), 1)


def test_what_a_group_cannot_do_is_unsupported(tmp_path: Path) -> None:
    target = vllm.build(vllm.resolve(tree(tmp_path, GROUP.format(limits="a=1", timeout=""))))
    assert isinstance(target, VllmTarget)
    with pytest.raises(UnsupportedByTarget, match="making of a group"):
        target.join(GroupShape(), ("127.0.0.1", 1), 0, b"", 1.0)
    with pytest.raises(UnsupportedByTarget, match="barrier"):
        target.group_barrier(object(), 1.0)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (RuntimeError("Barrier timed out after 2.00 seconds"), "timeout"),
        (RuntimeError("wait timeout after 100ms, keys: /x"), "timeout"),
        (RuntimeError("Connection was likely closed"), "error"),
    ],
)
def test_a_timeout_is_told_by_its_text(tmp_path: Path, error: Exception, word: str) -> None:
    assert vllm.build(vllm.resolve(tree(tmp_path, ""))).classify(error) == word


def test_a_changed_file_of_a_stored_group_is_not_served(
    package_index: PackageIndex, cache: Path
) -> None:
    top = "vllm-1"
    group = GROUP.format(limits="a=1", timeout="")
    files = {
        f"{top}/{FOLDER}/shm_broadcast.py": QUEUE,
        f"{top}/vllm/distributed/utils.py": group,
    }
    package_index.release("1", files)
    resolved = vllm.resolve("vllm==1")
    assert "group" in vllm.build(resolved).capabilities
    (cache / "vllm" / "1" / "vllm" / "distributed" / "utils.py").write_text(group + "#")
    with pytest.raises(CannotWork, match="changed since"):
        vllm.build(resolved)


def test_the_neighbours_write_addresses_and_compare_releases() -> None:
    assert tcp_uri("127.0.0.1", 1) == "tcp://127.0.0.1:1"
    assert tcp_uri("::1", 1) == "tcp://[::1]:1"
    assert is_torch_equal_or_newer("1.0")
    assert not is_torch_equal_or_newer("999.0")
