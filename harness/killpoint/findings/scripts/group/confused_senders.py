"""Two ranks send to a third at once: does it read from each what that one sent?"""

import multiprocessing
import socket

import _loader
from _bounded import main
from vllm.distributed.utils import StatelessProcessGroup

fork = multiprocessing.get_context("fork")
told = fork.SimpleQueue()


def take_part(rank, port):
    group = StatelessProcessGroup.create("127.0.0.1", port, rank, 3)
    if rank:
        group.send_obj(f"of rank {rank}", 0)
    group.barrier()
    if not rank:
        told.put([group.recv_obj(source) for source in (1, 2)])
    group.barrier()


def shows():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for rank in range(3):
        fork.Process(target=take_part, args=(rank, port)).start()
    got = told.get()
    sent = ["of rank 1", "of rank 2"]
    return "" if got == sent else f"rank 0 read {got} from ranks 1 and 2, which sent {sent}"


if __name__ == "__main__":
    main(shows)
