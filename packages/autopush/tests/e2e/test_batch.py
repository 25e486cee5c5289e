"""Batches over real connections, to user agents of two workers."""

import asyncio
import json
from pathlib import Path

import pytest

from autopush.api.batch import MAX_BODY
from autopush.webpush.syntax import encode_base64url
from support.application_server import application_server, claims
from support.senders import Sender
from support.service import Service, service
from support.soak import slow
from support.stores import store_of


async def announce(running: Service, path: str, authorization: str, size: int) -> int:
    """The status of a request with so many spaces."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.endpoint_port)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n"
    writer.write(f"{head}Content-Length: {size}\r\n\r\n".encode() + b" " * size)
    async with asyncio.timeout(30):
        status = int((await reader.readline()).split()[1])
    writer.close()
    return status


@pytest.mark.parametrize("store", ["embedded", slow("dynamodb"), slow("postgresql")])
async def test_a_batch_reaches_user_agents_of_all_workers(tmp_path: Path, store: str) -> None:
    sender = Sender()
    place, variables = store_of(store, "batches")
    options = (*place, "--batch-senders", sender.key_text, "--workers", "2")
    async with (
        service(tmp_path, *options, **variables) as running,
        application_server() as server,
    ):
        agents = [await running.connect() for _ in range(8)]
        endpoints = [(await agent.register(key=sender.key_text))[1] for agent in agents]
        gone = endpoints[0][:-4] + "AAAA"
        lines = [
            {
                "endpoint": endpoint,
                "headers": {"TTL": 60, "Content-Encoding": "aes128gcm"},
                "body": encode_base64url(f"{number}".encode()),
            }
            for number, endpoint in enumerate([*endpoints, gone])
        ]
        url = f"{running.endpoint}/push/batch"
        headers = {"Authorization": sender.vapid(claims(url))}
        body = "\n".join(map(json.dumps, lines)).encode()
        for _ in range(3):
            answer = await server.request("POST", url, headers=headers, body=body)
            assert answer.headers["Content-Type"] == "application/x-ndjson"
            results = [json.loads(line) for line in answer.body.splitlines()]
            assert [each["status"] for each in results] == [201] * 8 + [404]
            for number, agent in enumerate(agents):
                message = await agent.notification()
                assert message["data"] == encode_base64url(f"{number}".encode())
                assert results[number]["location"].endswith(message["version"])
                await agent.ack([message])
        unknown = await server.request("POST", url, body=body)
        assert unknown.status == 401
        for path, size, status in (
            ("/push/batch", MAX_BODY, 400),  # nothing but an empty line
            ("/push/batch", MAX_BODY + 1, 413),
            ("/push/batch/", 100_000, 413),
        ):
            assert await announce(running, path, headers["Authorization"], size) == status
        for agent in agents:
            await agent.close()
        assert running.errors == []
