"""The striker leaves nothing of itself behind."""

import sys

from . import striking
from .striking import Striker


def test_no_exception_is_left_being_handled(monkeypatch):
    monkeypatch.setattr(striking, "HOME", __file__)

    def act() -> None:
        try:
            [].pop()
        except IndexError:
            return  # before it the handler is no longer guarded

    where: set[str] = set()
    for at in range(1, 8):
        striker = Striker(at)
        striker.during(act)
        where.add(striker.where)
        assert sys.exc_info() == (None, None, None), striker.where
    assert len(where) >= 4


class Finalized:
    def __del__(self) -> None:
        self.let_go()

    def let_go(self) -> None:
        self.gone = True


def test_no_finalizer_is_struck_since_nobody_would_see_it(monkeypatch):
    monkeypatch.setattr(striking, "HOME", __file__)

    def act() -> str:
        Finalized()
        return "done"

    def lines(at: int) -> list[str]:
        return Striker(at).during(act)

    assert [lines(at) for at in range(1, 4)] == [[], [], ["done"]]
