"""Free TCP ports of this machine's own address."""

import socket

HOST = "127.0.0.1"


def free_ports(count: int) -> tuple[int, ...]:
    """So many that nobody listens at now."""
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind((HOST, 0))
        return tuple(each.getsockname()[1] for each in held)
    finally:
        for each in held:
            each.close()
