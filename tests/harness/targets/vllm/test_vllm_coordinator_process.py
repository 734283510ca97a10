"""vLLM's coordinator runs unmodified in a process of its own, and its peers speak its wire."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from package_index import FOLDER, QUEUE

from killpoint.targets import vllm
from killpoint.targets.coordinator_messages import Published, Started
from killpoint.targets.coordinator_protocol import CoordinatorShape, Saying
from killpoint.targets.protocol import UnsupportedByTarget
from killpoint.targets.vllm.adapter import VllmTarget

LIKE_ITS = """
import msgspec, zmq
from vllm.utils import make_zmq_socket
from vllm.v1.engine import EngineCoreOutputs, EngineCoreRequestType
from vllm.v1.serial_utils import MsgpackDecoder

class DPCoordinatorProc:
    @staticmethod
    def run_coordinator(engine_count, front_publish_address, back_output_address,
                        back_publish_address):
        ctx, decoder = zmq.Context(), MsgpackDecoder(EngineCoreOutputs)
        with make_zmq_socket(path=front_publish_address, ctx=ctx, socket_type=zmq.XPUB,
                             bind=True) as front, \\
             make_zmq_socket(path=back_output_address, ctx=ctx, socket_type=zmq.PULL,
                             bind=True) as up, \\
             make_zmq_socket(path=back_publish_address, ctx=ctx, socket_type=zmq.XPUB,
                             bind=True) as down:
            for _ in range(engine_count):
                assert down.recv() == b"\\x01"
            assert front.recv() == b"\\x01"
            down.send(b"READY")
            while True:
                said = decoder.decode(up.recv())
                if said.scheduler_stats:
                    counts = [[said.scheduler_stats.num_waiting_reqs, 1, 0.5]]
                    front.send(msgspec.msgpack.encode((counts, 0, False)))
                else:
                    front.send(msgspec.msgpack.encode((None, said.start_wave, True)))
                    told = msgspec.msgpack.encode((said.start_wave, said.engine_index))
                    down.send_multipart((EngineCoreRequestType.START_DP_WAVE.value, told))
"""


@pytest.fixture
def target(tmp_path: Path) -> VllmTarget:
    for path, text in (
        (Path(FOLDER, "shm_broadcast.py"), QUEUE),
        (Path("vllm", "v1", "engine", "coordinator.py"), LIKE_ITS),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    made = vllm.build(vllm.resolve(f"vllm@{tmp_path}"))
    assert isinstance(made, VllmTarget)
    return made


def test_peers_say_and_hear_what_its_wire_has_words_for(target: VllmTarget) -> None:
    end = target.coordinator_start(CoordinatorShape(engines=2), None)
    handle = target.coordinator_handle(end)
    engines = [target.engine_link(handle, rank) for rank in range(2)]
    front = target.front_end_link(handle)
    try:
        assert target.engine_says(engines[1], Saying(counts=(3, 1)))
        assert target.link_hears(front, 20.0) == Published(0, False, ((3, 1),))
        assert target.engine_says(engines[1], Saying(wants=5))
        assert target.link_hears(front, 20.0) == Published(5, True)
        heard = [target.link_hears(engines[0], 20.0) for _ in range(2)]
        assert heard == [None, Started(5, 1)]
        with pytest.raises(UnsupportedByTarget):
            target.engine_says(engines[0], Saying(broke=0))
        assert not target.coordinator_gone(end)
        assert not target.engine_forges(engines[0], "not-a-message", (1, 1))
        due = time.monotonic() + 20.0
        while not target.coordinator_gone(end):
            assert time.monotonic() < due, "it outlived what it cannot decode"
    finally:
        for link in (*engines, front):
            target.link_close(link)
        target.coordinator_close(end)
    assert not end.folder.exists()


def test_for_peers_on_other_hosts_it_listens_over_tcp(target: VllmTarget) -> None:
    end = target.coordinator_start(CoordinatorShape(engines=1, host="127.0.0.1"), None)
    addresses = target.coordinator_handle(end)
    assert all(address.startswith("tcp://127.0.0.1:") for address in addresses)
    engine, front = target.engine_link(addresses, 0), target.front_end_link(addresses)
    try:
        assert target.engine_says(engine, Saying(counts=(3, 1)))
        assert target.link_hears(front, 20.0) == Published(0, False, ((3, 1),))
    finally:
        for link in (engine, front):
            target.link_close(link)
        target.coordinator_close(end)


def test_deaths_on_its_own_machine_are_somebody_elses_to_notice(target: VllmTarget) -> None:
    assert "peer_watch" not in target.capabilities
