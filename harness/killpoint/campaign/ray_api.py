"""The part of Ray that a campaign uses, typed; Ray itself is imported only when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from killpoint import extras


class Ref(Protocol):
    """Reference to the result of a task."""

    def hex(self) -> str:
        """Return the result's name in the cluster."""
        ...


class Task(Protocol):
    """A function that nodes run."""

    def options(self, *, num_cpus: float, num_gpus: float, max_retries: int, name: str) -> Task:
        """The same with other demands."""
        ...

    def remote(self, *arguments: object) -> Ref:
        """Run it where its demands are met."""
        ...


class Errors(Protocol):
    """``ray.exceptions``."""

    RayError: type[Exception]
    RayTaskError: type[Exception]
    """The function itself raised; any other: Ray could not have it run to its end."""
    GetTimeoutError: type[Exception]


class Ray(Protocol):
    """The module ``ray``."""

    exceptions: Errors

    def init(self, *, address: str, log_to_driver: bool, logging_level: str) -> object:
        """Join one."""
        ...

    def shutdown(self) -> None:
        """Leave it; one that was joined goes on."""
        ...

    def remote(self, function: Callable[..., object]) -> Task:
        """Make a function one that nodes run."""
        ...

    def get(self, ref: Ref, *, timeout: float) -> object:
        """Return the task's result, or raise its error."""
        ...

    def wait(
        self, refs: Sequence[Ref], *, num_returns: int, timeout: float
    ) -> tuple[list[Ref], list[Ref]]:
        """Return the references that are done, and those that are not."""
        ...

    def cluster_resources(self) -> dict[str, float]:
        """Return all resources that the cluster has now."""
        ...

    def nodes(self) -> list[dict[str, object]]:
        """Return the cluster's nodes, with their ``Resources`` and whether they are ``Alive``."""
        ...


def load() -> Ray:
    """Ray.

    Raises:
        BadUsage: it is not installed.
    """
    extras.require("--ray", "ray")
    return cast("Ray", importlib.import_module("ray"))
