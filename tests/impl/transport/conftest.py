"""What tests of lines undo."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack
