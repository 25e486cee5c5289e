import pytest

from support.connection_house import House


@pytest.fixture
async def house() -> House:
    return await House.open()
