"""The wall clock jumps two hours between two sends: is the first object there still?"""

import datetime
import socket
import time

import _loader
from _bounded import main
from vllm.distributed.utils import StatelessProcessGroup

JUMP = 7200


def shows():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    group = StatelessProcessGroup.create("127.0.0.1", port, 0, 1)
    group.send_obj("sent first", 0)
    wall = time.time
    time.time = lambda: wall() + JUMP
    group.send_obj("sent second", 0)
    group.store.set_timeout(datetime.timedelta(seconds=3))
    try:
        got = group.recv_obj(0)
    except Exception as error:
        return f"an object that was just sent had expired: {str(error).splitlines()[0]}"
    if got != "sent first":
        raise RuntimeError(f"received {got!r}")
    return ""


if __name__ == "__main__":
    main(shows)
