"""Clean-up at the exit of multiprocessing's fork server, which imports this module."""

from .mp_fork_server import remove_at_exit

remove_at_exit()
