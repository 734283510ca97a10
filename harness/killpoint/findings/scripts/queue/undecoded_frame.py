"""Something connects to the coordinator's port and sends what is no message: what is left?"""

import multiprocessing
import socket

import _loader
import zmq
from _bounded import main
from vllm.v1.engine.coordinator import DPCoordinatorProc


def address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def connected(kind, where):
    made = zmq.Context.instance().socket(kind)
    made.immediate, made.rcvtimeo, made.linger = True, 20_000, 0
    made.connect(where)
    return made


def shows():
    front, engines, reports = address(), address(), address()
    coordinator = multiprocessing.get_context("fork").Process(
        target=DPCoordinatorProc.run_coordinator,
        kwargs={
            "engine_count": 1,
            "front_publish_address": front,
            "back_publish_address": engines,
            "back_output_address": reports,
        },
    )
    coordinator.start()
    engine, front_end = connected(zmq.XSUB, engines), connected(zmq.SUB, front)
    engine.send(b"\1")
    engine.recv()  # READY
    front_end.subscribe(b"")
    connected(zmq.PUSH, reports).send(b"GET / HTTP/1.0\r\n\r\n")
    coordinator.join(8)
    if coordinator.exitcode is not None:
        return f"one frame that is no message ended the coordinator (exit {coordinator.exitcode})"
    front_end.recv()  # it publishes its state every 5 s
    return ""


if __name__ == "__main__":
    main(shows)
