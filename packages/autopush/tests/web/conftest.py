import pytest

from support.connection_house import House
from support.endpoint_harness import Endpoint


@pytest.fixture
async def house() -> House:
    return await House.open()


@pytest.fixture
async def endpoint(house: House) -> Endpoint:
    return Endpoint(house)
