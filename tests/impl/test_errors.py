"""Every error carries its facts by name, says them, and arrives whole in another process."""

import inspect
import pickle
from typing import Any

import pytest

from refengine import errors
from refengine.errors import PeerDied, RefengineError
from refengine.transport.events import Gone

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, RefengineError) and kind is not RefengineError
]
SAMPLES: dict[str, Any] = {"int": 4711, "float": 2.5, "str": "a certain one", "list[int]": [4711]}


def sample(parameter: inspect.Parameter) -> Any:
    return SAMPLES[inspect.formatannotation(parameter.annotation).removesuffix(" | None")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_facts_are_attributes_in_the_text_and_survive_a_pickle(kind: type[RefengineError]):
    facts = {name: sample(what) for name, what in inspect.signature(kind).parameters.items()}
    error = kind(**facts)
    copy = pickle.loads(pickle.dumps(error))
    for made in (error, copy):
        assert {name: getattr(made, name) for name in facts} == facts
        assert (type(made), str(made)) == (kind, str(error))
    assert str(next(iter(facts.values()))).strip("[]") in str(error)


def test_of_a_connection_that_broke_no_more_is_said_than_was_seen():
    seen = str(Gone("died", 1.5, pid=7).error("writer", "a message"))
    assert "writer (pid 7) is gone: its connection broke, and was not back within 1.5 s" in seen
    assert "ended" not in seen
    assert "ended" in str(PeerDied("writer", 7, "a message"))
