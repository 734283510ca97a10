"""What comes of one request, as it comes: tokens, then a finish or an error (SPEC E1)."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import DeadlinePassed
from .errors import StreamEnded


@dataclass(frozen=True)
class Delta:
    """Some more tokens, the last ones if there is a finish."""

    tokens: tuple[int, ...]
    finish: str | None = None
    """Of: "stop", the model ended it; "length", it has as many as were asked for; "cancelled"."""


@dataclass(frozen=True)
class Completion:
    """All tokens of a request, and why there are no more."""

    tokens: tuple[int, ...]
    finish: str


News = Delta | BaseException
Listener = Callable[[News], None]


class Stream:
    """One request's. Any thread may use it; of two that take, each gets other deltas."""

    def __init__(self, request_id: str, cancel: Callable[[], None]) -> None:
        self.request_id = request_id
        self._cancel = cancel
        self._changed = threading.Condition()
        self._news: list[News] = []
        self._taken = 0
        self._listeners: list[Listener] = []

    @property
    def ended(self) -> bool:
        """Whether its finish or its error has come."""
        return bool(self._news) and is_last(self._news[-1])

    def next(self, timeout: float | None = None) -> Delta:
        """What has come since the last `next`, or comes within so many seconds.

        Raises:
            RequestFailed, EngineClosed: that ended it; raised again whenever it is asked.
            StreamEnded: it had its finish.
            DeadlinePassed: nothing came; nothing changed.
        """
        with self._changed:
            if not self._changed.wait_for(self._has_news, timeout):
                raise DeadlinePassed(f"tokens of request {self.request_id}", timeout or 0.0)
            if self._taken == len(self._news):
                raise StreamEnded(self.request_id)
            news = self._news[self._taken]
            if isinstance(news, BaseException):
                raise news
            self._taken += 1
            return news

    def result(self, timeout: float | None = None) -> Completion:
        """All tokens, those that `next` gave included, once it has ended; raises as `next` does."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.ended, timeout):
                raise DeadlinePassed(f"the end of request {self.request_id}", timeout or 0.0)
            tokens: list[int] = []
            finish = ""
            for news in self._news:
                if isinstance(news, BaseException):
                    raise news
                tokens += news.tokens
                finish = news.finish or finish
            return Completion(tuple(tokens), finish)

    def subscribe(self, callback: Listener) -> None:
        """Have it called with what came so far, now, then with each as it comes.

        It is called on the engine's thread from then on, under the stream's lock: it hands on, and
        returns at once. After a finish or an error nothing comes any more.
        """
        with self._changed:
            for news in self._news:
                callback(news)
            self._listeners.append(callback)

    def cancel(self) -> None:
        """Want no more: it ends with the finish "cancelled", soon, unless it has ended."""
        self._cancel()

    def _has_news(self) -> bool:
        return self._taken < len(self._news) or self.ended

    def put(self, news: News) -> None:
        """The engine's: this has come. What comes after the end is dropped."""
        with self._changed:
            if self.ended:
                return
            self._news.append(news)
            self._changed.notify_all()  # first: a listener may fail
            for listener in self._listeners:
                listener(news)


def is_last(news: News) -> bool:
    """Whether nothing comes after it."""
    return isinstance(news, BaseException) or news.finish is not None
