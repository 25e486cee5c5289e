"""The weeks of the worked example."""

import asyncio

import pytest

from support.channelstats.weeks import Week, all_weeks_in


@pytest.fixture(scope="session")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Week]:
    return asyncio.run(all_weeks_in(tmp_path_factory.mktemp("reports")))


@pytest.fixture
def w2(weeks: dict[str, Week]) -> Week:
    return weeks["W2"]
