"""Engines that are paused discard a start: does the next request wake them once they go on?"""

import multiprocessing
import socket

import _loader
import msgspec
import zmq
from _bounded import main
from vllm.v1.engine.coordinator import DPCoordinatorProc

WITHIN_MS = 8_000
WAKE = msgspec.msgpack.encode((0, 0))  # engine 0 has a request of wave 0: wake the others


def address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def connected(where):
    made = zmq.Context.instance().socket(zmq.XSUB)
    made.rcvtimeo, made.linger = 20_000, 0
    made.connect(where)
    made.send(b"\1")
    return made


def shows():
    front, engines, reports = address(), address(), address()
    coordinator = multiprocessing.get_context("fork").Process(
        target=DPCoordinatorProc.run_coordinator,
        kwargs={
            "engine_count": 2,
            "front_publish_address": front,
            "back_publish_address": engines,
            "back_output_address": reports,
        },
    )
    coordinator.start()
    paused = [connected(engines) for _ in range(2)]
    for engine in paused:
        engine.recv()  # READY
    front_end = connected(front)
    front_end.send(WAKE)
    paused[1].recv_multipart()  # a start, which a paused engine discards
    front_end.send(WAKE)
    if paused[1].poll(WITHIN_MS):
        return ""
    return f"a request after a start that nobody made woke no engine within {WITHIN_MS // 1000} s"


if __name__ == "__main__":
    main(shows)
