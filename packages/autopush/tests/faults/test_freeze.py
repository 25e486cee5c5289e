"""A worker that stands still: the users of the others notice nothing, its own are refused until it
is back, and what was answered is true.
"""

import asyncio
import os
import signal
import time
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from autopush.net.siblings import LARGEST_SHARE, SILENT_AFTER
from support.application_server import application_server
from support.service import Service, service
from support.soak import each_number_of_workers, times
from support.user_agent import UserAgent

FREEZES, SECONDS = times(1, 12), times(4, 8)
USERS = 12
PAUSE = 0.2
"""Seconds between two pushes of a sender."""
BUSY = 3.0
"""Seconds that an answer may take on a busy machine."""
NOTICED = SILENT_AFTER / (1 - LARGEST_SHARE) + 1.5
"""Seconds until a worker that stands still is noticed there: it is looked for every second."""
PATIENCE = 30.0


@dataclass
class Pushed:
    """A push; `body` tells it from all others."""

    user: int
    body: bytes
    began: float
    status: int = 0
    retry_after: str | None = None
    answered: float = 0.0


@dataclass
class Traffic:
    """Users that ack at once, and pushes to them, each over a new connection: any worker that runs
    may accept it.
    """

    endpoints: list[str]
    number: Iterator[int] = field(default_factory=count)
    pushes: list[Pushed] = field(default_factory=list)
    delivered: Counter[str] = field(default_factory=Counter)
    """By the body."""
    progress: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, user: int) -> None:
        while True:
            pushed = Pushed(user, b"%d" % next(self.number), time.monotonic())
            async with application_server(reconnecting=True) as sender:
                answer = await sender.push(self.endpoints[user], pushed.body, ttl=3600)
            pushed.status, pushed.answered = answer.status, time.monotonic()
            pushed.retry_after = answer.headers.get("Retry-After")
            self.pushes.append(pushed)
            self.progress.set()
            await asyncio.sleep(PAUSE)

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """One sender for each user meanwhile."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.send(user)) for user in range(len(self.endpoints))]
            yield
            for task in tasks:
                task.cancel()

    async def receive(self, agent: UserAgent) -> None:
        while True:
            message = await agent.notifications.get()
            self.delivered[message["data"]] += 1
            await agent.ack([message])
            self.progress.set()

    @property
    def undelivered(self) -> set[bytes]:
        return {
            each.body
            for each in self.pushes
            if each.status == 201 and not self.times_delivered(each)
        }

    def times_delivered(self, pushed: Pushed) -> int:
        return self.delivered[urlsafe_b64encode(pushed.body).rstrip(b"=").decode()]

    async def until(self, is_reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_reached():
                self.progress.clear()
                await self.progress.wait()

    def refused_since(self, began: float) -> set[int]:
        return {each.user for each in self.pushes if each.status == 503 and each.began > began}

    def accepted_since(self, began: float) -> set[int]:
        return {each.user for each in self.pushes if each.status == 201 and each.began > began}


async def connect_users(running: Service) -> tuple[list[UserAgent], list[str], list[int]]:
    """User agents, their endpoints, and the process that has the connection of each."""
    agents, endpoints, owners = [], [], []
    for _ in range(USERS):
        before = running.sockets
        agents.append(await running.connect())
        endpoints.append((await agents[-1].register())[1])
        owners.append(await running.holder(before))
    return agents, endpoints, owners


@dataclass(frozen=True)
class Freeze:
    frozen: int
    began: float
    ended: float


async def freeze(frozen: int, traffic: Traffic, its_own: set[int]) -> Freeze:
    """Until pushes to each of its own users were refused, at least for so many seconds.

    What was under way is with the frozen worker, some of it: further senders are needed.
    """
    os.kill(frozen, signal.SIGSTOP)
    began = time.monotonic()
    async with traffic.sending():
        await asyncio.sleep(SECONDS)
        await traffic.until(lambda: its_own <= traffic.refused_since(began))
        ended = time.monotonic()
        os.kill(frozen, signal.SIGCONT)
        await traffic.until(lambda: len(traffic.accepted_since(ended)) == USERS)
    return Freeze(frozen, began, ended)


def judge(traffic: Traffic, owners: list[int], freeze: Freeze) -> None:
    """What was pushed while a worker stood still."""
    during = [each for each in traffic.pushes if freeze.began < each.began < freeze.ended]
    others = [each for each in during if owners[each.user] != freeze.frozen]
    assert {each.user for each in others} == {
        user for user, owner in enumerate(owners) if owner != freeze.frozen
    }
    assert {each.status for each in others} == {201}
    slowest = max(each.answered - each.began for each in others)
    assert slowest < SILENT_AFTER + BUSY, "a push to another worker's user has waited for this one"

    its_own = [each for each in during if owners[each.user] == freeze.frozen]
    meanwhile = {each.status for each in its_own if each.answered < freeze.ended}
    assert meanwhile == {503}
    assert max(each.answered - each.began for each in its_own) < NOTICED + BUSY
    refused = [each for each in its_own if each.status != 201]
    assert {(each.status, int(each.retry_after or 0) > 0) for each in refused} == {(503, True)}
    assert not any(map(traffic.times_delivered, refused)), "delivered though it was refused"


@each_number_of_workers(3, beyond=(2, 4))
@pytest.mark.timeout(300 + FREEZES * (SECONDS + 2 * PATIENCE))
async def test_a_worker_that_stands_still_keeps_the_users_of_others_from_nothing(
    tmp_path: Path, workers: int
) -> None:
    options = ("--workers", str(workers), "--watchdog-timeout", "0", "--endpoint-rate", "none")
    async with service(tmp_path, *options) as running:
        agents, endpoints, owners = await connect_users(running)
        traffic = Traffic(endpoints)
        async with asyncio.TaskGroup() as group:
            receiving = [group.create_task(traffic.receive(agent)) for agent in agents]
            async with traffic.sending():
                freezes = []
                for number in range(FREEZES):
                    frozen = sorted(set(owners))[number % len(set(owners))]
                    its_own = {user for user, owner in enumerate(owners) if owner == frozen}
                    freezes.append(await freeze(frozen, traffic, its_own))
            await traffic.until(lambda: not traffic.undelivered)
            for task in receiving:
                task.cancel()
        for agent in agents:
            await agent.close()
    for each in freezes:
        judge(traffic, owners, each)
    assert max(traffic.delivered.values()) == 1
