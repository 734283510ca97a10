"""Imported in multiprocessing's fork server, where it sees to the server's tidy exit."""

from .fork_server import watch

watch()
