"""A sign of life while Slack is asked and waited for.

Rule: between two signs there is no more than one request or one short sleep, however long Slack
makes a call wait.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from channelstats.slack.rate_limits import Sleep
from channelstats.slack.transport import ApiResponse, Body, Params, Transport

BEAT: Final = 30.0
"""Seconds of sleep between two signs."""


class Heartbeat:
    """``keep`` is called at every sign, where something is to be kept."""

    def __init__(self, sleep: Sleep) -> None:
        self._sleep = sleep
        self.keep: Callable[[], Awaitable[None]] | None = None

    async def beat(self) -> None:
        if self.keep is not None:
            await self.keep()

    async def sleep(self, seconds: float) -> None:
        while seconds > 0:
            piece = min(seconds, BEAT)
            await self._sleep(piece)
            await self.beat()
            seconds -= piece

    def over(self, transport: Transport) -> Transport:
        """The transport, with a sign before each request."""
        return _Beating(self, transport)


class _Beating:
    def __init__(self, heartbeat: Heartbeat, transport: Transport) -> None:
        self._heartbeat, self._transport = heartbeat, transport

    async def call(self, method: str, params: Params) -> ApiResponse:
        await self._heartbeat.beat()
        return await self._transport.call(method, params)

    async def write(self, method: str, body: Body) -> ApiResponse:
        await self._heartbeat.beat()
        return await self._transport.write(method, body)

    async def upload(self, url: str, data: bytes) -> ApiResponse:
        await self._heartbeat.beat()
        return await self._transport.upload(url, data)

    async def close(self) -> None:
        await self._transport.close()
