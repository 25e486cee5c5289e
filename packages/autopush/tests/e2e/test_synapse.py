"""Synapse pushes to a user agent of this service, and forgets one that has unsubscribed."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import pytest

from autopush.webpush.syntax import decode_base64url
from support.paths import TOOLS
from support.service import Service, service
from support.sockets import unused_port
from support.tools import need
from support.user_agent import Message

pytestmark = pytest.mark.slow

ANSWERED = "Received response to POST"
"""What Synapse logs of each push."""
PYTHON: Final = TOOLS / "synapse/bin/python"
TIMEOUT: Final = 60.0

CONFIG: Final = """\
server_name: localhost
report_stats: false
listeners:
  - {port: %(port)d, bind_addresses: [127.0.0.1], type: http, resources: [{names: [client]}]}
database: {name: sqlite3, args: {database: "%(folder)s/homeserver.db"}}
media_store_path: "%(folder)s/media"
pid_file: "%(folder)s/homeserver.pid"
signing_key_path: "%(folder)s/signing.key"
log_config: "%(folder)s/log.yaml"
macaroon_secret_key: a
form_secret: b
trusted_key_servers: []
enable_registration: true
enable_registration_without_verification: true
# Without this line no push goes to a private address.
ip_range_whitelist: ["127.0.0.1"]
"""
LOG: Final = """\
version: 1
disable_existing_loggers: false
handlers: {console: {class: logging.StreamHandler}}
root: {level: INFO, handlers: [console]}
"""


class Synapse:
    """`logged` waits for a text in the log, from the line on that the last call has found."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self.url = url

    async def logged(self, text: str) -> None:
        assert self._process.stdout is not None
        async with asyncio.timeout(TIMEOUT):
            while line := await self._process.stdout.readline():
                if text in line.decode():
                    return
        raise AssertionError(f"not in the log of Synapse: {text!r}")

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator["MatrixClient"]:
        """A new user."""
        async with aiohttp.ClientSession(f"{self.url}/_matrix/client/v3/") as session:
            client = MatrixClient(session)
            registration = {"username": name, "password": name, "auth": {"type": "m.login.dummy"}}
            registered = await client.call("POST", "register", registration)
            client.user_id = registered["user_id"]
            session.headers["Authorization"] = f"Bearer {registered['access_token']}"
            yield client


class MatrixClient:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self.user_id = ""

    async def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        async with self._session.request(method, path, json=body) as response:
            document = await response.json()
            assert response.status == 200, document
            assert isinstance(document, dict)
            return document

    async def create_room(self, *invited: str) -> str:
        settings = {"preset": "trusted_private_chat", "is_direct": True, "invite": invited}
        return str((await self.call("POST", "createRoom", settings))["room_id"])

    async def join(self, room: str) -> None:
        await self.call("POST", f"rooms/{quote(room)}/join", {})

    async def say(self, room: str, text: str) -> str:
        """The ID of the event."""
        path = f"rooms/{quote(room)}/send/m.room.message/{os.urandom(8).hex()}"
        said = await self.call("PUT", path, {"msgtype": "m.text", "body": text})
        return str(said["event_id"])

    async def read(self, room: str, event_id: str) -> None:
        await self.call("POST", f"rooms/{quote(room)}/receipt/m.read/{quote(event_id)}", {})

    async def set_pusher(self, pushkey: str, url: str, **data: str) -> None:
        pusher = {
            "app_display_name": "A client",
            "app_id": "org.example.client",
            "data": {"url": url} | data,
            "device_display_name": "A phone",
            "kind": "http",
            "lang": "en",
            "pushkey": pushkey,
        }
        await self.call("POST", "pushers/set", pusher)

    async def pushkeys(self) -> list[str]:
        return [each["pushkey"] for each in (await self.call("GET", "pushers"))["pushers"]]


@asynccontextmanager
async def synapse(folder: Path) -> AsyncIterator[Synapse]:
    python = need("Synapse", "make tools", str(PYTHON))
    port = unused_port()
    config = _write_config(folder, port)
    words = [python, "-m", "synapse.app.homeserver", "--config-path", str(config)]
    making = await asyncio.create_subprocess_exec(*words, "--generate-keys", cwd=folder)
    assert await making.wait() == 0
    process = await asyncio.create_subprocess_exec(
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        limit=1 << 20,
    )
    running = Synapse(process, f"http://127.0.0.1:{port}")
    try:
        await running.logged("Synapse now listening on TCP port")
        yield running
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        assert process.stdout is not None
        await process.stdout.read()  # a full pipe would keep it from ending
        await process.wait()


def _write_config(folder: Path, port: int) -> Path:
    folder.mkdir()
    (folder / "log.yaml").write_text(LOG)
    config = folder / "homeserver.yaml"
    config.write_text(CONFIG % {"port": port, "folder": folder})
    return config


@pytest.fixture
async def homeserver(tmp_path: Path) -> AsyncIterator[Synapse]:
    async with synapse(tmp_path / "synapse") as running:
        yield running


@pytest.fixture(params=["1", "2"], ids=["a worker", "two workers"])
async def running(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    async with service(tmp_path / "autopush", "--workers", request.param) as running:
        yield running


def content(message: Message) -> dict[str, object]:
    """The notification in a message of the gateway."""
    document: dict[str, dict[str, object]] = json.loads(decode_base64url(message["data"]))
    assert document.keys() == {"notification"}
    return document["notification"]


async def test_a_message_in_a_room_reaches_the_user_agent_until_it_unsubscribes(
    homeserver: Synapse, running: Service
) -> None:
    async with AsyncExitStack() as stack:
        alice: MatrixClient = await stack.enter_async_context(homeserver.client("alice"))
        bob: MatrixClient = await stack.enter_async_context(homeserver.client("bob"))
        room = await alice.create_room(bob.user_id)
        await bob.join(room)
        agent = await running.connect()
        channel, endpoint = await agent.register()
        gateway = f"{running.endpoint}/_matrix/push/v1/notify"
        await bob.set_pusher(endpoint, gateway, format="event_id_only")

        event_id = await alice.say(room, "Hello")
        message = await agent.notification()
        await agent.ack([message])
        found = content(message)
        assert found.pop("prio") in ("high", "low")
        assert found == {"event_id": event_id, "room_id": room, "counts": {"unread": 1}}

        # Another of his clients has read it.
        await bob.read(room, event_id)
        message = await agent.notification()
        await agent.ack([message])
        assert content(message)["counts"] == {"unread": 0}
        for _ in range(2):
            await homeserver.logged(ANSWERED)

        # While the user agent is away, messages wait for it.
        await agent.close()
        away = [await alice.say(room, f"{number}") for number in range(3)]
        for _ in away:
            await homeserver.logged(ANSWERED)
        agent = await running.connect(agent.uaid)
        waited = await agent.receive(3, ack=True)
        assert [content(each)["event_id"] for each in waited] == away

        # A subscription that is gone costs the homeserver one more push.
        await agent.unregister(channel)
        await alice.say(room, "Is anybody there?")
        await homeserver.logged("was rejected: removing")
        async with asyncio.timeout(TIMEOUT):
            while await bob.pushkeys():  # it is removed soon
                pass
        await agent.close()
