"""Namespaces of this process and its children alone, by the system calls."""

import ctypes
import fcntl
import os
import socket
import struct

NEW_MOUNTS, NEW_USER, NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
RECURSIVE_AND_PRIVATE = 0x4000 | 0x40000


def checked(status):
    if status:
        error = ctypes.get_errno()
        raise OSError(error, f"this needs the right to make namespaces: {os.strerror(error)}")


def apart(kind):
    """Leave for a namespace of this kind, in a user namespace of its own if need be."""
    libc, user = ctypes.CDLL(None, use_errno=True), os.getuid()
    if libc.unshare(kind):
        checked(libc.unshare(NEW_USER | kind))
        with open("/proc/self/uid_map", "w") as mapped:
            mapped.write(f"0 {user} 1")
    return libc


def small_shm(size):
    """A /dev/shm of so many bytes."""
    libc = apart(NEW_MOUNTS)
    checked(libc.mount(None, b"/", None, RECURSIVE_AND_PRIVATE, None))
    checked(libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=%d" % size))


def loopback(up):
    """Set the network's only interface up or down."""
    with socket.socket() as any_socket:
        request = struct.pack("16sH14x", b"lo", 1 if up else 0)
        fcntl.ioctl(any_socket, 0x8914, request)
