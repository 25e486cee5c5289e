"""The registration API of a running service, with the stub router in the place of a bridge."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autopush.webpush.tokens import new_key
from support.application_server import AESGCM, Answer, ApplicationServer, claims
from support.senders import Sender
from support.service import Service, running_service, service

TOKEN, NEW_TOKEN = "device-token-one", "device-token-two"
DELIVERED = "The stub router delivered a message"
VAPID = Sender()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("registration")
    with running_service(data, "--stub-router", "--debug") as running:
        yield running


class Device:
    """A device behind the stub bridge."""

    def __init__(self, sender: ApplicationServer, base: str, app_id: str = "app") -> None:
        self._sender = sender
        self.registration = f"{base}/v1/stub/{app_id}/registration"
        self.uaid = self.secret = self.endpoint = self.channel = ""

    @property
    def url(self) -> str:
        return f"{self.registration}/{self.uaid}"

    async def register(self, token: str = TOKEN, **members: object) -> dict[str, Any]:
        answer = await self.ask("POST", self.registration, {"token": token, **members})
        assert answer.status == 200, answer
        reply = answer.document
        self.uaid, self.secret = reply["uaid"], reply["secret"]
        self.endpoint, self.channel = reply["endpoint"], reply["channelID"]
        return reply

    async def ask(self, method: str, url: str, body: object = None) -> Answer:
        headers = {"Authorization": f"Bearer {self.secret}"} if self.secret else {}
        data = b"" if body is None else json.dumps(body).encode()
        return await self._sender.request(method, url, headers=headers, body=data)


@pytest.fixture
def device(sender: ApplicationServer, running: Service) -> Device:
    return Device(sender, running.endpoint)


async def test_a_device_registers_is_pushed_to_updates_subscribes_and_is_deleted(
    device: Device, sender: ApplicationServer, running: Service
) -> None:
    await device.register(key=VAPID.key_text)
    assert "/wpush/v2/" in device.endpoint
    signed = VAPID.vapid(claims(device.endpoint))
    assert (await sender.push(device.endpoint, b"x")).status == 401
    answer = await sender.push(device.endpoint, b"x" * 20, Authorization=signed)
    assert (answer.status, answer.headers["TTL"]) == (201, "60")
    assert (await sender.delete(answer.headers["Location"])).status == 204

    assert (await device.ask("PUT", device.url, {"token": NEW_TOKEN})).document == {}
    reply = (await device.ask("POST", f"{device.url}/subscription", {})).document
    assert "/wpush/v1/" in reply["endpoint"]
    assert (await sender.push(reply["endpoint"], b"x", crypto=AESGCM)).status == 201
    listed = (await device.ask("GET", f"{device.url}/")).document
    assert listed["uaid"] == listed["uid"] == device.uaid
    assert listed["channelIDs"] == sorted([device.channel, reply["channelID"]])
    gone = f"{device.url}/subscription/{device.channel}"
    assert (await device.ask("DELETE", gone)).document == {}
    assert (await device.ask("DELETE", gone)).document["errno"] == 106
    assert (await device.ask("GET", device.url)).document["channelIDs"] == [reply["channelID"]]

    assert (await device.ask("DELETE", device.url)).document == {}
    assert (await device.ask("GET", device.url)).document["errno"] == 103
    assert (await sender.push(reply["endpoint"], b"x")).document["errno"] == 103
    await running.logged(DELIVERED, times=2)


async def test_no_secret_is_in_the_output_and_the_stub_router_is_warned_about(
    tmp_path: Path, sender: ApplicationServer
) -> None:
    auth_key = new_key()
    payload = b"a payload"
    options = ("--stub-router", "--debug", "--human-logs")
    async with service(tmp_path, *options, AUTH_KEY=auth_key) as running:
        device = Device(sender, running.endpoint)
        await device.register()
        tokens = ("moved-device-token", "gone-device-token", "critical-device-token")
        for token in (TOKEN, "outage-device-token", *tokens):
            assert (await device.ask("PUT", device.url, {"token": token})).status == 200
            await sender.push(device.endpoint, payload)
            if token == "gone-device-token":
                await device.register()
        device.secret += "0"
        assert (await device.ask("PUT", device.url, {"token": NEW_TOKEN})).status == 401
        secrets = [device.uaid, device.secret[:-1], device.endpoint.rpartition("/")[2], auth_key]
    output = "".join(running.output)
    assert output.count("The stub router is on") == 1
    assert DELIVERED in output
    for secret in (*secrets, "device-token", payload.decode(), "YSBwYXlsb2Fk"):
        assert secret not in output
