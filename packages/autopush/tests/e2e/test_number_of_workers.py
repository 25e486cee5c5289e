"""A service that is started again with another number of workers, which divides its store anew."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.application_server import application_server
from support.service import service
from support.user_agent import UserAgent


def parts_in(folder: Path) -> int:
    names = [file.name for file in folder.rglob("autopush.sqlite*")]
    return sum(re.fullmatch(r"autopush\.sqlite(-\d+of\d+)?", name) is not None for name in names)


@pytest.mark.slow
async def test_users_and_their_messages_stay_with_any_number_of_workers(tmp_path: Path) -> None:
    endpoints: dict[str, str] = {}
    for workers in (1, 3, 2, 1):
        async with service(tmp_path, "--workers", str(workers)) as running:
            assert parts_in(tmp_path) == workers
            for uaid in endpoints:
                agent: UserAgent = await running.connect(uaid)
                assert agent.uaid == uaid
                await agent.ack([await agent.notification()])
                await agent.close()
            for _ in range(4):
                agent = await running.connect()
                _, endpoints[agent.uaid] = await agent.register()
                await agent.close()
            async with application_server() as sender:
                for endpoint in endpoints.values():
                    here = urlsplit(endpoint)._replace(netloc=f"127.0.0.1:{running.endpoint_port}")
                    assert (await sender.push(here.geturl(), b"x", ttl=600)).status == 201
    assert len(endpoints) == 16
