"""Runs a test in a child with network namespaces of its own, where the machine permits them."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

import pytest

from killpoint.runner.network import namespaces
from killpoint.runner.network.netlink import Netlink

NOT_HERE = 77


def in_namespace(act: Callable[[Netlink, Netlink, int], None]) -> None:
    """Run it in a child with two namespaces of its own; its exit status says how it went."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = _alone(act)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == NOT_HERE:
        pytest.skip("network namespaces cannot be made here")
    assert status == 0


def _alone(act: Callable[[Netlink, Netlink, int], None]) -> int:
    try:
        namespaces.enter_new(namespaces.NEW_NETWORK)
        near = Netlink()
        near.add_bridge("switch")
        namespaces.enter_new(namespaces.NEW_NETWORK)
    except OSError:
        return NOT_HERE
    door = os.open("/proc/self/ns/net", os.O_RDONLY)
    act(near, Netlink(), door)
    return 0
