"""Random workspaces, and the documents of the same days."""

from typing import Any

import pytest

from channelstats.pages.document import report
from channelstats.pages.loading import DashboardData
from support.channelstats.house import decoded
from support.channelstats.pages import random_workspace
from support.soak import slow_after


@pytest.fixture(scope="module", params=slow_after(2, (0, 4, 6)))
def data(request: pytest.FixtureRequest) -> DashboardData:
    return random_workspace(request.param)


@pytest.fixture(scope="module")
def document(data: DashboardData) -> Any:
    return decoded(report(data.inputs, data.period, data.options, generated_at=0))
