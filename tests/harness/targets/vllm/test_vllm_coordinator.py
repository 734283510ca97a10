"""vLLM's coordinator runs unmodified on simulated sockets and time, whatever the release."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from package_index import FOLDER, QUEUE, PackageIndex, sdist

from killpoint.errors import CannotWork
from killpoint.scenario import Wakes
from killpoint.systems.coordinator.checks.wakeups import check_request_wakes_all
from killpoint.systems.coordinator.unanswered_start_search import play
from killpoint.targets import vllm
from killpoint.targets.coordinator_messages import Published, Started
from killpoint.targets.vllm.adapter import VllmTarget
from killpoint.targets.vllm.fetch import archive

LIKE_ITS = """
import time, zmq, msgspec
from vllm.utils.network_utils import make_zmq_socket
from vllm.v1.engine import EngineCoreOutputs, EngineCoreRequestType
from vllm.v1.serial_utils import MsgpackDecoder

class DPCoordinatorProc:
    def __init__(self, engine_count):
        self.engine_count = engine_count

    def process_input_socket(self, front, up, down):
        decoder = MsgpackDecoder(EngineCoreOutputs)
        with make_zmq_socket(front) as f, make_zmq_socket(up) as u, make_zmq_socket(down) as d:
            for _ in range(self.engine_count):
                assert d.recv() == b"\\x01"
            d.send(b"READY")
            poller = zmq.Poller()
            for each in (f, u, d):
                poller.register(each, zmq.POLLIN)
            began = time.time()
            while True:
                events = dict(poller.poll(timeout=500))
                if not events:
                    told = [], int(time.time() - began), False
                    f.send(msgspec.msgpack.encode(told))
                if f in events:
                    engine_to_exclude, wave = msgspec.msgpack.decode(f.recv())
                    if wave == 9:
                        return
                if u in events:
                    wave = decoder.decode(u.recv()).start_wave
                    start = msgspec.msgpack.encode((wave, None))
                    d.send_multipart((EngineCoreRequestType.START_DP_WAVE.value, start))
"""


def _tree(root: Path, coordinator: str = LIKE_ITS) -> VllmTarget:
    for path, text in (
        (Path(FOLDER, "shm_broadcast.py"), QUEUE),
        (Path("vllm", "v1", "engine", "coordinator.py"), coordinator),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    target = vllm.build(vllm.resolve(f"vllm@{root}"))
    assert isinstance(target, VllmTarget)
    return target


def test_it_goes_on_when_told_to_and_in_simulated_time(tmp_path: Path) -> None:
    target = _tree(tmp_path)
    assert "coordinator" in target.capabilities
    with target.coordinate(2) as coordinator:
        coordinator.arrive(0)
        coordinator.elapse(60.0)
        assert coordinator.said() == []
        coordinator.arrive(1)
        coordinator.elapse(1.2)
        assert coordinator.said() == [Published(0, False), Published(1, False)]
        coordinator.want(1, 7)
        assert coordinator.said() == [Started(7, None)]
    assert not [name for name in sys.modules if name.partition(".")[0] == "vllm"]


def test_a_coordinator_that_leaves_its_loop_cannot_be_judged(tmp_path: Path) -> None:
    with _tree(tmp_path).coordinate(1) as coordinator:
        coordinator.arrive(0)
        assert coordinator.front_ends_wake
        coordinator.wake(0, 9)
        with pytest.raises(CannotWork, match="has left its loop"):
            coordinator.want(0, 0)


def test_whether_front_ends_wake_is_read_off_the_file(tmp_path: Path) -> None:
    newer = LIKE_ITS.replace("engine_to_exclude, wave", "engine, wave")
    with _tree(tmp_path, newer).coordinate(0) as coordinator:
        assert not coordinator.front_ends_wake


def test_one_that_asks_for_what_has_no_stand_in_says_so(tmp_path: Path) -> None:
    target = _tree(tmp_path, "from vllm.config import Unheard\n")
    with (
        pytest.raises(CannotWork, match=r"its coordinator cannot be imported.*Unheard"),
        target.coordinate(1),
    ):
        pass


def test_a_release_stored_without_its_engine_is_completed(
    package_index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = "vllm-1.2.3/"
    files = {
        f"{top}{FOLDER}/shm_broadcast.py": QUEUE,
        f"{top}vllm/envs.py": "",
        f"{top}vllm/v1/executor/__init__.py": "",
        f"{top}vllm/v1/engine/__init__.py": "",
        f"{top}vllm/v1/engine/coordinator.py": LIKE_ITS,
    }
    package_index.add("vllm-1.2.3.tar.gz", sdist("1.2.3", files))
    with monkeypatch.context() as older:
        kept = {path for path in archive.WANTED if "engine" not in path.parts}
        older.setattr(archive, "WANTED", frozenset[PurePosixPath](kept))
        assert "coordinator" not in vllm.build(vllm.resolve("vllm==1.2.3")).capabilities
    assert "coordinator" in vllm.build(vllm.resolve("vllm==1.2.3")).capabilities


@pytest.mark.full  # the record's rows of C2 are played always
@pytest.mark.network
@pytest.mark.parametrize(
    ("version", "wakes_again"),
    [("0.9.1", False), ("0.28.0", False), ("0.29.0", True), ("0.33.0", True)],
)
def test_an_unanswered_start_is_no_evidence_from_0_29_on(
    published: Callable[[str], str], version: str, wakes_again: bool
) -> None:
    target = vllm.build(published(version))
    assert isinstance(target, VllmTarget)
    for late in (False, True):
        assert (check_request_wakes_all(play(target, Wakes(late=late))) is None) is wakes_again
