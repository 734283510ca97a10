"""Free TCP ports of the loopback address."""

import socket

HOST = "127.0.0.1"


def free_ports(count: int) -> tuple[int, ...]:
    """Return `count` ports at which no process listens now."""
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind((HOST, 0))
        return tuple(each.getsockname()[1] for each in held)
    finally:
        for each in held:
            each.close()
