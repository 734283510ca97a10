"""Fixtures of the queue tests."""

import pytest

from .queue.ends import pair


@pytest.fixture
def ends():
    writer, reader = pair()
    yield writer, reader
    reader.close()
    writer.close()
