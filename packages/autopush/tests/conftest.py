"""The log of one test is not the log of the next."""

import logging
from collections.abc import Iterator

import pytest

from autopush.telemetry import logs


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """Ends the logging that a test configured, and gives other libraries' loggers their levels."""
    loggers = [logging.getLogger(), logging.getLogger("botocore")]
    levels = [logger.level for logger in loggers]
    yield
    logs.shutdown()
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
