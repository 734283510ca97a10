import pytest

from refengine.base.serialization import Encoder, Limits
from refengine.executor.messages import partial_decode

from .workers import Unreadable


def main_of(message):
    return Encoder(Limits()).encode(message)[0]


class Odd:
    def __init__(self, x):
        self.x = x


@pytest.mark.parametrize(
    "value",
    [
        Unreadable(),
        Unreadable("exit"),
        [Odd(1), {Odd(2): Unreadable()}],
        b"x" * 100_000,
        {1, 2, frozenset([3])},
        complex(1, 2),
    ],
)
def test_the_number_of_a_message_is_known_whatever_else_is_in_it(value):
    found = partial_decode(main_of((7, "method", (value,), {"key": value}, 1)))
    assert found is not None
    assert (found[0], found[1], found[4]) == (7, "method", 1)


def test_arrays_and_tensors_do_not_hide_it():
    np = pytest.importorskip("numpy")
    message = (8, True, [np.arange(5), np.zeros(100_000), Unreadable()])
    found = partial_decode(main_of(message))
    assert found is not None
    assert found[:2] == (8, True)


def test_nothing_that_the_message_names_is_called(tmp_path):
    class Trap:
        def __reduce__(self):
            return open, (str(tmp_path / "made"), "w")

    assert partial_decode(main_of((9, True, Trap()))) is not None
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("message", ["text", (), ("x", 1), 5])
def test_what_is_no_message_of_ours_has_no_number(message):
    assert partial_decode(main_of(message)) is None


def test_a_torn_message_has_no_number():
    assert partial_decode(main_of((1, True, "abc"))[:-4]) is None
