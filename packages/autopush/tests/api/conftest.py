import pytest

from support.connection_harness import Harness
from support.endpoint_harness import Endpoint


@pytest.fixture
async def endpoint(harness: Harness) -> Endpoint:
    return Endpoint(harness)
