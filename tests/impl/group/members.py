"""Groups for tests: members as threads of this process, or as processes of their own."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from refengine.group import Group, new_key

from ..roles import Role

KEY = new_key()


def port_of(group: Group) -> int:
    return int(group.address.rsplit(":", 1)[1])


@contextlib.contextmanager
def members(n: int, host: str = "127.0.0.1", **overrides: Any) -> Iterator[list[Group]]:
    """A whole group in this process; each operation needs a thread for each rank (`together`)."""
    with ExitStack() as undo:
        groups = [undo.enter_context(Group(host, 0, 0, n, key=KEY, **overrides))]
        for rank in range(1, n):
            group = Group(host, port_of(groups[0]), rank, n, key=KEY, **overrides)
            groups.append(undo.enter_context(group))
        together(groups, lambda group: group.wait_until_ready(20))
        undo.callback(lambda: together(groups, lambda group: group.close(2)))
        yield groups


def together(groups: list[Group], act: Callable[[Group], Any]) -> list[Any]:
    """What `act` returned, or raised, at each."""

    def outcome(group: Group) -> Any:
        try:
            return act(group)
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(groups)) as pool:
        return list(pool.map(outcome, groups))


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def processes(
    n: int, work: Callable[[Any, Group], None], host: str = "127.0.0.1", **overrides: Any
) -> Iterator[list[Role]]:
    """Each rank a process that runs `work(say, group)`, then leaves."""
    port = free_port(host)

    def member(say: Any, rank: int) -> None:
        with Group.create(host, port, rank, n, key=KEY, timeout=20, **overrides) as group:
            work(say, group)

    with ExitStack() as undo:
        yield [undo.enter_context(Role(member, rank)) for rank in range(n)]
