"""The documents of the worked example."""

import asyncio
import copy

import pytest

from support.channelstats.weeks import Week, all_weeks_in


@pytest.fixture(scope="session")
def all_weeks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Week]:
    return asyncio.run(all_weeks_in(tmp_path_factory.mktemp("reports")))


@pytest.fixture
def weeks(all_weeks: dict[str, Week]) -> dict[str, Week]:
    return {
        name: Week(copy.deepcopy(week.document), week.directory) for name, week in all_weeks.items()
    }


@pytest.fixture
def w2(weeks: dict[str, Week]) -> Week:
    return weeks["W2"]
