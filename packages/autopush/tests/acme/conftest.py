"""Pebble, with names that lead to a port 80 in the process of the tests."""

from collections.abc import Iterator

import pytest

from support.pebble import Pebble
from support.sockets import unused_port


@pytest.fixture(scope="module")
def pebble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pebble]:
    with Pebble(tmp_path_factory.mktemp("pebble"), unused_port()).running() as directory:
        yield directory
