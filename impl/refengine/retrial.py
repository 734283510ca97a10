"""Whether what decoding raised is the message's own error, or came from outside (SPEC R7, R9)."""

import contextvars
import threading
from collections.abc import Callable

_PATIENCE = 5.0  # seconds; decoding may want a lock that the caller's thread holds


def own_error(decode: Callable[[], object]) -> type[BaseException] | None:
    """The type of what `decode` raises once more; None if nothing: the first was an outsider's.

    It runs in a thread of its own: signal handlers run in the main thread alone, so none strikes
    both times, however often it comes. None, too, if it is not over within 5 s.
    """
    raised: list[type[BaseException]] = []

    def attempt() -> None:
        try:
            decode()
        except BaseException as error:
            raised.append(type(error))  # not itself: its frames hold the message

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(attempt,), name="retrial", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # there may be no more threads
        attempt()
    else:
        thread.join(_PATIENCE)
    return raised[0] if raised else None
