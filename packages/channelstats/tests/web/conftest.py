"""Dashboards over the worked example."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.channelstats.dashboard import SECRET, TOKEN, Dashboard, dashboard
from support.channelstats.house import EXAMPLE, House, house


@pytest.fixture(scope="session")
def taken_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store that the example was taken into."""
    folder = tmp_path_factory.mktemp("taken-in")

    async def take_in() -> None:
        async with house(folder) as opened:
            await opened.take_in(EXAMPLE)

    asyncio.run(take_in())
    return folder


@pytest.fixture
async def example(taken_in: Path, tmp_path: Path) -> AsyncIterator[House]:
    folder = tmp_path / "example"
    shutil.copytree(taken_in, folder)
    async with house(folder) as opened:
        yield opened


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
async def hidden(example: House, tmp_path: Path) -> AsyncIterator[Dashboard]:
    """Under pseudonyms."""
    async with dashboard(example, tmp_path, slack_name="example", secret=SECRET) as opened:
        yield opened


@pytest.fixture
async def guarded(example: House, tmp_path: Path) -> AsyncIterator[Dashboard]:
    """With a token."""
    async with dashboard(example, tmp_path, token=TOKEN) as opened:
        yield opened
