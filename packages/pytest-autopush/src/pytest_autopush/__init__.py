"""A pytest plugin: the fixture `push_service`, a push service for tests of what sends to one.

def test_a_news_item_is_pushed(push_service):
    subscription = push_service.subscribe()
    my_app.notify(subscription.info, "News")
    assert subscription.next().text == "News"
    assert push_service.received[0].mistakes == []
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from autopush.testing.client import PushService

__all__ = ["push_service", "push_service_tls"]


@pytest.fixture
def push_service() -> "Iterator[PushService]":
    """A push service of this test's own, in memory, on a free port of loopback."""
    # Here, so that a run of tests that do not use it pays nothing.
    from autopush.testing.client import PushService  # noqa: PLC0415

    with PushService.running() as service:
        yield service


@pytest.fixture
def push_service_tls() -> "Iterator[PushService]":
    """The same over TLS, by a CA made for this test: `ca` is the path of its PEM file."""
    from autopush.testing.client import PushService  # noqa: PLC0415

    with PushService.running(tls=True) as service:
        yield service
