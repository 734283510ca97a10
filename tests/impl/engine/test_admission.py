"""What can never be served is refused before anybody is asked, at its very edges."""

import pytest

from refengine.engine.admission import check
from refengine.engine.settings import EngineSettings

SMALL = EngineSettings(blocks=2, block_size=4)


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [((0,), 1), ((256,), 8), ((1,) * 8, 1), ((1,), 8), ((1,) * 4, 5)],
)
def test_what_just_fits_is_taken(prompt, tokens):
    check(SMALL, prompt, tokens)


@pytest.mark.parametrize(
    ("prompt", "tokens", "why"),
    [
        ((), 1, "needs a prompt"),
        ((1,), 0, "at least one token"),
        ((257,), 1, "not below 257"),
        ((1, -1), 1, "not below 257"),
        ((1,) * 9, 1, "9 tokens and 1 more never fit into a KV cache of 8"),
        ((1,), 9, "1 tokens and 9 more never fit"),
    ],
)
def test_what_does_not_is_refused_with_the_reason(prompt, tokens, why):
    with pytest.raises(ValueError, match=why):
        check(SMALL, prompt, tokens)
