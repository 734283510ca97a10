"""Descriptors are counted out exactly; the machine's own /dev/shm is never filled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from killpoint.errors import BadUsage
from killpoint.runner.environment.resource_limits import fill_shm

_PROGRAM = """
import os, sys
from killpoint.runner.environment.resource_limits import leave_descriptors
gap = [os.open("/dev/null", os.O_RDONLY) for _ in range(6)]
for fd in gap[1:4]:
    os.close(fd)  # free numbers below open ones count as well
leave_descriptors(int(sys.argv[1]))
opened = 0
try:
    while True:
        os.open("/dev/null", os.O_RDONLY)
        opened += 1
except OSError as error:
    print(opened, error.errno)
"""


@pytest.mark.parametrize("spare", [0, 1, 3, 5, 9])
def test_exactly_so_many_more_can_be_opened(spare: int) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _PROGRAM, str(spare)]
    done = subprocess.run(
        command, env=environment, timeout=60, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == [str(spare), "24"]


def test_the_machines_own_dev_shm_is_refused() -> None:
    with pytest.raises(BadUsage, match="shm_bytes"):
        fill_shm(os.getpid())
