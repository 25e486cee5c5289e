"""Dashboards over the worked example."""

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.channelstats.dashboard import TOKEN, Dashboard, dashboard
from support.channelstats.house import EXAMPLE, House, house


@pytest.fixture
async def questions(tmp_path: Path) -> AsyncIterator[House]:
    """The worked example, in which every message is a question."""
    export = tmp_path / "export"
    shutil.copytree(EXAMPLE, export)
    for day in export.glob("*/*.json"):
        messages = [{**of, "text": f"{of['text']}?"} for of in json.loads(day.read_text())]
        day.write_text(json.dumps(messages))
    async with house(tmp_path) as opened:
        await opened.take_in(export)
        yield opened


@pytest.fixture
async def board(example: House, tmp_path: Path) -> AsyncIterator[Dashboard]:
    async with dashboard(example, tmp_path, slack_name="example") as opened:
        yield opened


@pytest.fixture
async def guarded(example: House, tmp_path: Path) -> AsyncIterator[Dashboard]:
    """With a token."""
    async with dashboard(example, tmp_path, token=TOKEN) as opened:
        yield opened
