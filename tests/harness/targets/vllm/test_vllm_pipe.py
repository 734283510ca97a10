"""vLLM's pipe is served as it is where a release has one, and kept with the rest of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from package_index import FOLDER, QUEUE, PackageIndex

from killpoint.targets import vllm
from killpoint.targets.protocol import PipeShape, UnsupportedByTarget
from killpoint.targets.vllm.adapter import VllmTarget

GROUP = "class StatelessProcessGroup:\n    def create(host, port, rank, world_size): ...\n"
PIPES = "vllm/distributed/kv_transfer/kv_pipe"
BASE = "class KVPipeBase: ...\n"
PIPE = """
from vllm.config import KVTransferConfig
from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator
from vllm.distributed.kv_transfer.kv_pipe.base import KVPipeBase
from vllm.distributed.utils import StatelessProcessGroup
from vllm.logger import init_logger
class PyNcclPipe(KVPipeBase):
    group = "kept"
    def __init__(self, local_rank, config, device=None, port_offset=0):
        self.told = (local_rank, config.kv_rank, config.kv_parallel_size, config.kv_buffer_device)
        self.where, self.buffer_size = (config.kv_ip, config.kv_port), config.kv_buffer_size
        self.limit = config.get_from_extra_config("store_timeout", 300)
        self.sent = []
    def send_tensor(self, tensor): self.sent.append(tensor)
    def recv_tensor(self): return self.sent.pop(0)
    def close(self): self.sent = None
"""


def files(top: str = "") -> dict[str, str]:
    found = {
        f"{FOLDER}/shm_broadcast.py": QUEUE,
        "vllm/distributed/utils.py": GROUP,
        f"{PIPES}/base.py": BASE,
        f"{PIPES}/pynccl_pipe.py": PIPE,
        "vllm/envs.py": "",
    }
    return {f"{top}{name}": text for name, text in found.items()}


def tree(root: Path, *without: str) -> VllmTarget:
    for name, text in files().items():
        if not name.endswith(without or ("nothing",)):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    target = vllm.build(vllm.resolve(f"vllm@{root}"))
    assert isinstance(target, VllmTarget)
    return target


def test_a_pipe_is_offered_where_all_of_it_and_a_group_are_there(tmp_path: Path) -> None:
    assert "pipe" in tree(tmp_path / "a").capabilities
    for number, missing in enumerate(("base.py", "pynccl_pipe.py", "utils.py")):
        assert "pipe" not in tree(tmp_path / str(number), missing).capabilities


def used(root: str) -> tuple[Any, ...]:
    target = vllm.build(f"vllm@{root}")
    assert isinstance(target, VllmTarget)
    target.load()
    end = target.pipe_make(1, PipeShape(size=3, buffer_bytes=77), "127.0.0.1", 4242, b"", None)
    target.pipe_send(end, None, None)
    got = target.pipe_recv(end, None)
    before = target.pipe_buffered(end)
    target.pipe_close(end, None)
    return end.told, end.where, end.limit, got, before, end.sent


def test_its_calls_are_vllms_own(tmp_path: Path, elsewhere: Callable[..., Any]) -> None:
    tree(tmp_path)
    told, where, limit, got, buffered, sent = elsewhere(used, str(tmp_path))
    assert told == (1, 1, 3, "cpu")
    assert (where, limit) == (("127.0.0.1", 4242), 300)
    assert (got, buffered, sent) == (None, 77, None)


def test_what_a_pipe_cannot_do_is_unsupported(tmp_path: Path) -> None:
    target = tree(tmp_path)
    with pytest.raises(UnsupportedByTarget, match="timeouts"):
        target.pipe_recv(object(), 1.0)
    with pytest.raises(UnsupportedByTarget, match="CUDA"):
        target.pipe_make(0, PipeShape(device="cuda"), "127.0.0.1", 1, b"", None)
    with pytest.raises(UnsupportedByTarget, match="lie"):
        target.pipe_forge(object(), "nonsense")


def test_a_release_that_was_stored_without_its_pipe_is_fetched_again(
    package_index: PackageIndex, cache: Path
) -> None:
    package_index.release("0.12.0", files("vllm-0.12.0/"))
    home = cache / "vllm" / "0.12.0"
    assert "pipe" in vllm.build(vllm.resolve("vllm==0.12.0")).capabilities
    record = json.loads((home / "source.json").read_text())
    record["files"] = {name: sha for name, sha in record["files"].items() if "kv_pipe" not in name}
    (home / "source.json").write_text(json.dumps(record))
    assert "pipe" not in vllm.build("vllm==0.12.0").capabilities
    assert "pipe" in vllm.build(vllm.resolve("vllm==0.12.0")).capabilities
