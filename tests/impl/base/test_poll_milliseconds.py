"""Seconds of any length, as a poll takes them."""

import math
import os
import select

import pytest

from refengine.base.clock import LONGEST_POLL, poll_milliseconds


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [
        (2.5, 2500.0),
        (0.0, 0.0),
        (-1.0, 0.0),
        (LONGEST_POLL, LONGEST_POLL * 1000),
        (3e6, LONGEST_POLL * 1000),
        (math.inf, LONGEST_POLL * 1000),
    ],
)
def test_what_is_over_is_none_and_the_longest_is_one_that_the_kernel_takes(seconds, milliseconds):
    assert poll_milliseconds(seconds) == milliseconds
    fd = os.eventfd(1)
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    assert poller.poll(milliseconds + 1) == [(fd, select.POLLIN)]
    os.close(fd)
