"""The flags of `refengine serve` about two nodes, in the words of other engines."""

from __future__ import annotations

import argparse
import os
import socket
from pathlib import Path

from .executor.nodes.settings import NodeSettings, own_address_towards

SECRET = "REFENGINE_NODE_SECRET"
"""Environment variable with the nodes' secret, if no file has it."""
_PEER_TIMEOUT = 8.0


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags; without them a server runs on this machine alone."""
    group = parser.add_argument_group(
        "two nodes",
        "half of the tensor-parallel workers run on another machine, where the same command is"
        " started with --node-rank 1; it takes every other setting from the first node",
    )
    group.add_argument(
        "--nnodes", type=int, choices=[1, 2], default=1, help="number of machines (default 1)"
    )
    group.add_argument(
        "--node-rank",
        type=int,
        choices=[0, 1],
        default=0,
        help="0: this is the head, which answers HTTP; 1: it has workers alone (default 0)",
    )
    group.add_argument(
        "--master-address", metavar="HOST", help="address of the head; there alone it listens"
    )
    group.add_argument(
        "--master-port", type=int, metavar="PORT", help="where the other node joins the head"
    )
    group.add_argument(
        "--node-address",
        metavar="HOST",
        help="address of node 1, at which its workers listen for the head (default: the one from"
        " which it reaches the head)",
    )
    group.add_argument(
        "--node-secret-file",
        type=Path,
        metavar="FILE",
        help="its first line is the secret of both nodes, of 16 bytes at least; what they send to"
        f" each other is encrypted with it (default: the variable {SECRET})",
    )
    group.add_argument(
        "--node-timeout",
        type=float,
        default=_PEER_TIMEOUT,
        metavar="SECONDS",
        help="without a sign of life of the other node, until both give up; a shorter cut of the"
        f" network loses nothing (default {_PEER_TIMEOUT:g})",
    )


def settings_of(options: argparse.Namespace) -> NodeSettings | None:
    """Return the nodes of parsed flags; None for one machine.

    The secret's variable is removed from the environment, so that no child process inherits it.
    Raises ValueError if they do not fit together, OSError for a file that cannot be read.
    """
    secret = os.environ.pop(SECRET, "").encode()
    if options.nnodes == 1:
        if options.node_rank:
            raise ValueError("--node-rank 1 without --nnodes 2: there is no second node")
        return None
    if options.master_address is None or not 0 < (options.master_port or 0) < 1 << 16:
        raise ValueError("two nodes meet at the head: --master-address and --master-port, 1-65535")
    if options.node_secret_file is not None:
        secret = options.node_secret_file.read_bytes().partition(b"\n")[0].strip()
    if not secret:
        raise ValueError(f"two nodes need a secret: --node-secret-file, or the variable {SECRET}")
    head, address = _numeric(options.master_address), ""
    if options.node_rank:
        given = options.node_address
        found = own_address_towards(head, options.master_port) if given is None else _numeric(given)
        address = found
    elif options.node_address is not None:
        raise ValueError("--node-address is for node 1; the head's is --master-address")
    return NodeSettings(head, options.master_port, secret, address, options.node_timeout)


def _numeric(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except socket.gaierror as error:
        raise ValueError(f"{host} is no address: {error.strerror}") from None
