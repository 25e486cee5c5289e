"""The dashboard over the worked example, in this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from channelstats.settings import load
from channelstats.web.app import make_app
from channelstats.web.auth import Authenticator
from channelstats.web.message_texts import MessageTexts
from channelstats.web.service import DashboardService
from support.channelstats.house import NOW, House
from support.clocks import ManualClock

Client = TestClient[web.Request, web.Application]

TOKEN = "correct-horse-battery"


@dataclass
class Dashboard:
    """A dashboard and somebody who visits it."""

    house: House
    client: Client
    clock: ManualClock

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.client.port}"

    async def status(self, path: str, **headers: str) -> int:
        async with self.client.get(path, headers=headers, allow_redirects=False) as answer:
            return answer.status

    async def text(self, path: str, *, status: int = 200) -> str:
        async with self.client.get(path, allow_redirects=False) as answer:
            text = await answer.text()
            assert answer.status == status, text
            return text

    async def json(self, path: str, *, status: int = 200) -> Any:
        return orjson.loads(await self.text(path, status=status))


@asynccontextmanager
async def dashboard(
    house: House,
    folder: Path,
    *,
    token: str | None = None,
    texts: MessageTexts | None = None,
    **settings: str,
) -> AsyncIterator[Dashboard]:
    """A dashboard over the tables of a house."""
    clock = ManualClock(NOW)
    known = load({"data": str(folder), **settings}, {})
    service = DashboardService(house.tables, known, clock=clock, texts=texts)
    app = make_app(service, Authenticator(token, clock))
    async with TestClient(TestServer(app)) as client:
        yield Dashboard(house, client, clock)
