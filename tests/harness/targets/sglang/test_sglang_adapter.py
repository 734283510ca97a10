"""SGLang's file runs as it is among stand-ins of its own; what it offers is said, and no more."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sglang_index import FOLDER, NAMES, QUEUE

from killpoint.errors import CannotWork
from killpoint.targets import sglang
from killpoint.targets.protocol import (
    HasPoints,
    HasRing,
    HasSlots,
    HasWire,
    QueueShape,
    UnsupportedByTarget,
)
from killpoint.targets.sglang.adapter import SglangTarget

Elsewhere = Callable[..., Any]


@dataclasses.dataclass
class Handle:
    """What of a handle is looked at."""

    connect_ip: str = "127.0.0.1"
    remote_subscribe_port: int | None = 5000


def tree(root: Path, *more: str) -> str:
    """A working tree with a queue module of these lines."""
    (root / FOLDER).mkdir(parents=True)
    (root / FOLDER / "shm_broadcast.py").write_text("\n".join([QUEUE, *more]))
    return f"sglang@{root}"


def target(root: Path) -> SglangTarget:
    built = sglang.build(tree(root))
    assert isinstance(built, SglangTarget)
    return built


def load(spec: str) -> dict[str, Any]:
    """What a module that was served has, as far as it can be sent."""
    built = sglang.build(sglang.resolve(spec))
    assert isinstance(built, SglangTarget)
    try:
        built.load()
    except CannotWork as error:
        left = [name for name in sys.modules if name.partition(".")[0] == "sglang"]
        return {"error": str(error), "left": left}
    content: dict[str, Any] = built.module.__dict__
    return {name: value for name, value in content.items() if name.isupper()}


def load_beside_another(spec: str) -> str:
    sys.modules["sglang"] = sys
    return load(spec)["error"]


def load_beside_vllm(spec: str) -> dict[str, Any]:
    sys.modules["vllm"] = sys
    return load(spec)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("import sglang.nowhere", "sglang.nowhere"),
        ("from sglang.srt.utils import no_such_thing", "no_such_thing"),
        ("from sglang.srt.utils.stale_shm_cleanup import make_shm_name", "stale_shm_cleanup"),
        ("from sglang.srt.environ import envs; envs.SGLANG_UNHEARD_OF", "SGLANG_UNHEARD_OF"),
        ("import no_such_package", "no_such_package"),
    ],
)
def test_what_has_no_stand_in_is_named(
    tmp_path: Path, elsewhere: Elsewhere, line: str, named: str
) -> None:
    found = elsewhere(load, tree(tmp_path, line))
    assert named in found["error"]
    assert found["left"] == []


def test_its_neighbours_have_what_it_takes_from_them(tmp_path: Path, elsewhere: Elsewhere) -> None:
    spec = tree(
        tmp_path,
        "from sglang.srt.environ import envs",
        "from sglang.srt.utils import format_tcp_address, get_ip, is_valid_ipv6_address",
        "from sglang.srt.utils.network import get_local_ip_auto, get_open_port",
        "PORT, SET = get_open_port(), envs.SGLANG_PORT.get()",
        "HERE = [get_ip(), get_local_ip_auto(), get_local_ip_auto('0.0.0.0')]",
        "TCP = [format_tcp_address(host, 9) for host in ('127.0.0.1', '::1')]",
        "SAME = [NetworkAddress(host, 9).to_tcp() for host in ('127.0.0.1', '::1', '[::1]')]",
        "SIX = [NetworkAddress(host, 9).is_ipv6 for host in ('127.0.0.1', '::1', '[::1]')]",
    )
    found = elsewhere(load, spec)
    assert 0 < found.pop("PORT") < 65536
    assert found == {
        "SET": None,
        "HERE": ["127.0.0.1"] * 3,
        "TCP": ["tcp://127.0.0.1:9", "tcp://[::1]:9"],
        "SAME": ["tcp://127.0.0.1:9", "tcp://[::1]:9", "tcp://[::1]:9"],
        "SIX": [False, True, True],
    }


def test_segments_are_named_by_the_file_of_the_release(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    spec = tree(
        tmp_path,
        "from sglang.srt.utils.stale_shm_cleanup import make_shm_name",
        "NAME = make_shm_name('mq')",
    )
    (tmp_path / NAMES).parent.mkdir(parents=True)
    (tmp_path / NAMES).write_text("def make_shm_name(kind): return f'named_{kind}'")
    assert elsewhere(load, spec) == {"NAME": "named_mq"}


def test_one_process_holds_one_sglang_and_does_not_mind_vllm(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    spec = tree(tmp_path, "LOADED = True")
    assert "another sglang" in elsewhere(load_beside_another, spec)
    assert elsewhere(load_beside_vllm, spec) == {"LOADED": True}


def test_it_offers_what_it_has(tmp_path: Path) -> None:
    built = target(tmp_path)
    assert built.capabilities == {"queue", "ring", "slots", "points", "remote", "wire"}
    for protocol in (HasRing, HasSlots, HasPoints, HasWire):
        assert isinstance(built, protocol)
    assert (built.name, built.version) == ("sglang", "tree")
    assert str(tmp_path) in built.notes[0]
    assert any("SGLANG_PORT" in note for note in built.notes)
    assert not any("vllm" in note for note in built.notes)


def test_what_it_lacks_is_unsupported_and_named(tmp_path: Path) -> None:
    built = target(tmp_path)
    with pytest.raises(UnsupportedByTarget, match="sglang tree has no deadlines"):
        built.send(SimpleNamespace(enqueue=print), 1, 0.5)
    with pytest.raises(UnsupportedByTarget, match="sglang tree has no way to end"):
        built.cancel(object())
    for shape in (QueueShape(max_buffers=3), QueueShape(max_buffer_bytes=3)):
        with pytest.raises(UnsupportedByTarget, match="limits"):
            built.make(shape)


def test_a_handle_names_its_address_and_takes_another(tmp_path: Path) -> None:
    built = target(tmp_path)
    assert built.addresses(Handle(remote_subscribe_port=None)) == []
    for handle, address in ((Handle(), "127.0.0.1:5000"), (Handle("::1", 6), "[::1]:6")):
        assert built.addresses(handle) == [address]
        assert built.rerouted(handle, {"127.0.0.1:1": "127.0.0.1:2"}) == handle
        assert built.rerouted(handle, {address: "[::1]:7"}) == Handle("::1", 7)
        assert built.rerouted(handle, {address: "127.0.0.1:8"}) == Handle("127.0.0.1", 8)
        assert built.secrets(handle) == []
