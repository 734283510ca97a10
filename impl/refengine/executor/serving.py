"""A worker's loop: take a request, run the method, reply; until it is told to leave (SPEC W6)."""

import importlib
import logging
from collections.abc import Callable
from typing import Any

from ..queue import MessageQueue
from .leaving import Leave, Leaving
from .messages import Request, skeleton
from .page import Page
from .replying import Gone, Replies

_log = logging.getLogger(__name__)


class Server:
    """Serves one worker object. Whatever a method does, the loop goes on."""

    def __init__(
        self,
        worker: Any,
        rank: int,
        requests: MessageQueue,
        replies: Replies,
        page: Page,
        leaving: Leaving,
    ) -> None:
        self._worker, self._rank = worker, rank
        self._requests, self._replies = requests, replies
        self._page, self._leaving = page, leaving
        self._methods: dict[str, Callable[..., Any]] = {}

    def serve(self) -> None:
        """Until told to leave; returns then, or raises `Leave`."""
        dequeue, leaving = self._requests.dequeue, self._leaving
        while not leaving.asked:
            try:
                request = dequeue(indefinite=True)
            except Gone:
                leaving.ask("the parent closed the pool")
                return
            except BaseException as error:
                self._refuse(error)
                continue
            self._run(request)
            del request

    def _run(self, request: Request) -> None:
        number, name, args, kwargs, only = request
        page, rank = self._page, self._rank
        page.begin(rank)
        try:
            value = self._method(name)(*args, **kwargs)
        except BaseException as error:
            self._failed(number, only, error)
        else:
            if only is None or only == rank:
                self._reply(number, value)
        page.end(rank)

    def _reply(self, number: int, value: Any) -> None:
        try:
            self._replies.result(number, value)
        except Gone:
            self._leaving.ask("nobody reads replies any more")

    def _failed(self, number: int, only: int | None, error: BaseException) -> None:
        if isinstance(error, Leave):
            raise error
        if only is not None and only != self._rank:
            _log.error("call %d failed at a worker that does not reply", number, exc_info=error)
            return
        try:
            self._replies.failure(number, error)
        except Gone:
            self._leaving.ask("nobody reads replies any more")

    def _refuse(self, error: BaseException) -> None:
        """A request that cannot be decoded, or an exception that came from outside."""
        main = getattr(error, "undecoded", None)
        found = None if main is None else skeleton(main)
        if found is None or len(found) != 5:
            raise error
        only = found[4] if isinstance(found[4], int) else None
        self._failed(found[0], only, error.__cause__ or error)

    def _method(self, name: str | bytes) -> Callable[..., Any]:
        """A method by name, or a function that gets the worker as its first argument."""
        if isinstance(name, bytes):
            function = importlib.import_module("cloudpickle").loads(name)
            return lambda *args, **kwargs: function(self._worker, *args, **kwargs)
        method = self._methods.get(name)
        if method is None:
            default = _alive if name == "check_health" else None
            method = getattr(self._worker, name, default)
            if method is None:
                raise AttributeError(f"{type(self._worker).__name__} has no method {name!r}")
            self._methods[name] = method
        return method


def _alive() -> None:
    """What a worker without its own check says: it came to answer."""
