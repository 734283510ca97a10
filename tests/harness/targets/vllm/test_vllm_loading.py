"""The queue's file runs as it is; whatever is missing around it is named, not imitated."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from package_index import FOLDER, QUEUE

from killpoint.errors import BadUsage, CannotWork
from killpoint.targets import vllm
from killpoint.targets.vllm.adapter import VllmTarget
from killpoint.targets.vllm.fetch import trees
from killpoint.targets.vllm.loading import stubs


def tree(root: Path, *more: str) -> str:
    """A working tree with a queue module of these lines."""
    (root / FOLDER).mkdir(parents=True)
    (root / FOLDER / "shm_broadcast.py").write_text("\n".join([QUEUE, *more]))
    return f"vllm@{root}"


def load(spec: str) -> dict[str, Any]:
    """What a module that was served has, as far as it can be sent."""
    target = vllm.build(vllm.resolve(spec))
    assert isinstance(target, VllmTarget)
    try:
        target.load()
    except CannotWork as error:
        return {"error": str(error), "left": [name for name in sys.modules if "vllm." in name[:5]]}
    content: dict[str, Any] = target.module.__dict__
    found = {name: value for name, value in content.items() if name.isupper()}
    return {**found, "file": target.module.__file__}


def load_beside_another(spec: str) -> str:
    sys.modules["vllm"] = sys
    return load(spec)["error"]


def load_with_temporary_folder(spec: str, folder: str) -> dict[str, Any]:
    os.environ.pop("VLLM_RPC_BASE_PATH")
    before = stubs.ipc_path()
    os.environ["TMPDIR"] = folder
    return {**load(spec), "BEFORE": before}


Elsewhere = Callable[..., Any]


def test_the_file_is_run_where_it_lies_and_nothing_is_written(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    found = elsewhere(load, tree(tmp_path))
    assert found["file"] == str(tmp_path / FOLDER / "shm_broadcast.py")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["shm_broadcast.py"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("import vllm.nowhere", "vllm.nowhere"),
        ("from vllm.nowhere.else_ import thing", "vllm.nowhere"),
        ("from vllm.utils import no_such_thing", "no_such_thing"),
        ("import vllm.envs as envs; envs.VLLM_UNHEARD_OF", "vllm.envs.VLLM_UNHEARD_OF"),
        (
            "from vllm.platforms import current_platform; current_platform.seed_everything(0)",
            "current_platform.seed_everything",
        ),
        ("import no_such_package", "no_such_package"),
        ("raise TypeError('two\\nlines')", "TypeError: two lines"),
    ],
)
def test_what_has_no_stand_in_is_named(
    tmp_path: Path, elsewhere: Elsewhere, line: str, named: str
) -> None:
    found = elsewhere(load, tree(tmp_path, line))
    assert named in found["error"]
    assert found["left"] == []


def test_an_optional_import_stays_optional(tmp_path: Path, elsewhere: Elsewhere) -> None:
    line = "try:\n    import vllm.spinloop\nexcept ImportError:\n    FAST = False"
    assert elsewhere(load, tree(tmp_path, line))["FAST"] is False


def test_one_process_holds_one_vllm(tmp_path: Path, elsewhere: Elsewhere) -> None:
    assert "another vllm" in elsewhere(load_beside_another, tree(tmp_path))


def test_settings_have_the_releases_defaults(tmp_path: Path, elsewhere: Elsewhere) -> None:
    found = elsewhere(
        load,
        tree(
            tmp_path,
            "import vllm.envs as envs",
            "WARN = envs.VLLM_RINGBUFFER_WARNING_INTERVAL",
            "SLEEP = envs.VLLM_SLEEP_WHEN_IDLE",
            "NATIVE = envs.VLLM_USE_SPINLOOP_EXT",
        ),
    )
    assert (found["WARN"], found["SLEEP"], found["NATIVE"]) == (60, False, False)


def test_sockets_go_where_temporary_files_go_now(tmp_path: Path, elsewhere: Elsewhere) -> None:
    folder = tmp_path / "role"
    folder.mkdir()
    spec = tree(
        tmp_path / "tree",
        "from vllm.utils import get_open_zmq_ipc_path, get_open_zmq_inproc_path, get_open_port",
        "from vllm.utils.network_utils import get_ip, is_valid_ipv6_address",
        "PATH, OTHER = get_open_zmq_ipc_path(), get_open_zmq_ipc_path()",
        "INSIDE, PORT, HERE = get_open_zmq_inproc_path(), get_open_port(), get_ip()",
        "SIX = [is_valid_ipv6_address(text) for text in ('::1', '127.0.0.1', 'x')]",
    )
    found = elsewhere(load_with_temporary_folder, spec, str(folder))
    assert found["PATH"].startswith(f"ipc://{folder}/")
    assert not found["BEFORE"].startswith(f"ipc://{folder}/")
    assert found["PATH"] != found["OTHER"]
    assert found["INSIDE"].startswith("inproc://")
    assert 0 < found["PORT"] < 65536
    assert found["HERE"] == "127.0.0.1"
    assert found["SIX"] == [True, False, False]


def test_a_tree_is_found_from_its_root_and_from_its_package(tmp_path: Path) -> None:
    spec = tree(tmp_path)
    assert vllm.resolve(f"vllm@{tmp_path / 'vllm'}") == spec
    assert vllm.resolve(spec) == spec


@pytest.mark.parametrize("path", ["", "/no/such/folder", "/"])
def test_a_folder_without_vllm_is_refused(path: str) -> None:
    with pytest.raises(BadUsage, match=r"vllm@.*no "):
        vllm.resolve(f"vllm@{path}")


def test_a_tree_tells_its_version_where_it_knows_it(tmp_path: Path) -> None:
    spec = tree(tmp_path)
    assert vllm.build(spec).version == "tree"
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.1\nVersion: 1.2.3\n\nVersion: 9\n")
    assert vllm.build(spec).version == "1.2.3"
    generated = tmp_path / "vllm" / "_version.py"
    generated.write_text("raise SystemExit\n__version__ = version = '1.3.dev4+g0'\n")
    assert trees.locate(str(tmp_path)).version == "1.3.dev4+g0"
