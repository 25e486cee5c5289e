import pytest

from support.connection_harness import Harness
from support.endpoint_harness import Endpoint
from support.event_loops import collect_what_is_left

__all__ = ["collect_what_is_left"]


@pytest.fixture
async def endpoint(harness: Harness) -> Endpoint:
    return Endpoint(harness)
