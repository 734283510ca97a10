"""Messages to the kernel's networking, in a namespace that ends with the test's child."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest
from own_network import in_namespace

from killpoint.runner.network.netlink import Netlink


def test_a_pair_has_one_end_here_and_one_there_and_carries_once_both_are_up() -> None:
    def act(near: Netlink, far: Netlink, door: int) -> None:
        near.add_pair("reader-0", "eth0", door, "switch")
        assert not near.carries("reader-0")
        near.set_up("reader-0", up=True)
        assert not far.carries("eth0")
        far.set_up("eth0", up=True)
        assert far.carries("eth0")
        near.set_up("reader-0", up=False)
        assert not far.carries("eth0")

    in_namespace(act)


def test_what_the_kernel_refuses_is_an_error_with_its_number() -> None:
    def act(near: Netlink, far: Netlink, door: int) -> None:
        with pytest.raises(FileExistsError):
            near.add_bridge("switch")
        with pytest.raises(OSError, match="No such device"):
            far.index("eth7")
        far.add_address("lo", IPv4Address("10.1.0.1"), 24)
        with pytest.raises(FileExistsError):
            far.add_address("lo", IPv4Address("10.1.0.1"), 24)

    in_namespace(act)


def test_setting_right_what_was_never_misled_changes_nothing() -> None:
    def act(near: Netlink, far: Netlink, door: int) -> None:
        near.add_pair("reader-0", "eth0", door, "switch")
        far.set_up("eth0", up=True)
        far.set_right("eth0", IPv4Address("10.1.0.1"))
        far.mislead("eth0", IPv4Address("10.1.0.1"))
        far.mislead("eth0", IPv4Address("10.1.0.1"))
        far.set_right("eth0", IPv4Address("10.1.0.1"))
        far.set_right("eth0", IPv4Address("10.1.0.1"))

    in_namespace(act)
