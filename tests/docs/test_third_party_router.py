"""The router of the page on bridges as printed: built, installed, and sent through."""

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support.aiohttp_server import served
from support.application_server import AESGCM, ApplicationServer, application_server
from support.paths import ROOT
from support.service import Service, refusal, service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PAGE = (ROOT / "docs" / "bridges.md").read_text("utf-8")
FILE = re.compile(
    r"^```\{code-block\} \w+\n:caption: (?P<name>[\w.-]+)\n\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
CHANNEL = "11111111-2222-3333-4444-555555555555"
KEY = "key-of-the-webhook"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as the page prints it."""
    folder = tmp_path_factory.mktemp("autopush-webhook")
    for found in FILE.finditer(PAGE):
        (folder / found["name"]).write_text(found["text"], "utf-8")
    return folder


@pytest.fixture(scope="module")
def installed(printed: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """PYTHONPATH with the package, installed from its own folder without network access."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*pip, "install", *offline, "--target", target, printed], check=True, timeout=120
    )
    return os.pathsep.join(filter(None, (str(target), os.environ.get("PYTHONPATH"))))


class Webhook:
    """The program that takes the messages; answers `status`."""

    def __init__(self) -> None:
        self.status = 204
        self.url = ""
        self.received: list[tuple[str, dict[str, Any]]] = []

    async def take(self, request: web.Request) -> web.Response:
        self.received.append((request.headers["Authorization"], await request.json()))
        return web.Response(status=self.status)


@pytest.fixture
async def webhook() -> AsyncIterator[Webhook]:
    webhook = Webhook()
    app = web.Application()
    app.router.add_post("/push", webhook.take)
    async with served(app) as origin:
        webhook.url = f"{origin}/push"
        yield webhook


async def register(running: Service, sender: ApplicationServer, token: str) -> str:
    """Register a device for the router `webhook`; returns its endpoint."""
    url = f"{running.endpoint}/v1/webhook/home/registration"
    body = json.dumps({"token": token, "channelID": CHANNEL}).encode()
    answer = await sender.request("POST", url, body=body)
    assert answer.status == 200, answer
    endpoint = answer.document["endpoint"]
    assert isinstance(endpoint, str)
    return endpoint


async def push(sender: ApplicationServer, endpoint: str) -> tuple[int, int | None]:
    """Status and errno of a push."""
    answer = await sender.push(endpoint, b"x", ttl=90, crypto=AESGCM)
    return answer.status, answer.document.get("errno")


async def test_the_router_of_the_page_takes_messages_to_its_devices(
    installed: str, webhook: Webhook, tmp_path: Path
) -> None:
    configuration = json.dumps({"webhook": {"url": webhook.url, "key": KEY}})
    variables = {"PYTHONPATH": installed}
    async with (
        service(tmp_path, "--routers", configuration, **variables) as running,
        application_server() as sender,
    ):
        endpoint = await register(running, sender, "kitchen-light")
        assert await push(sender, endpoint) == (201, None)
        [(authorization, document)] = webhook.received
        assert authorization == f"Bearer {KEY}"
        assert (document["device"], document["ttl"]) == ("kitchen-light", 90)
        assert document["message"]["chid"] == CHANNEL
        assert document["message"]["con"] == "aesgcm"
        assert base64.urlsafe_b64decode(document["message"]["body"] + "==") == b"x"
        assert document["message"].keys() == {"chid", "body", "con", "enc", "cryptokey"}

        webhook.status = 429
        assert await push(sender, endpoint) == (503, 201)
        webhook.status = 500
        assert await push(sender, endpoint) == (502, 902)
        webhook.status = 410
        assert await push(sender, endpoint) == (410, 106)
        assert await push(sender, endpoint) == (410, 103)
        assert len(webhook.received) == 4
    assert KEY not in "".join(running.output)


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"url": "ftp://h/", "key": KEY}, "url: expected a URL that starts with http"),
        ({"url": "http://h/"}, "key: expected the key that the webhook asks for"),
    ],
)
def test_its_wrong_configuration_stops_the_start(
    installed: str, tmp_path: Path, configuration: dict[str, str], expected: str
) -> None:
    options = ("--routers", json.dumps({"webhook": configuration}))
    line = refusal(tmp_path, "serve", *options, PYTHONPATH=installed)
    assert line.startswith(f"autopush: --routers: webhook: {expected}")
    assert KEY not in line


def test_it_passes_the_type_checker(printed: Path) -> None:
    module = printed / "autopush_webhook.py"
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", module],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert checked.returncode == 0, checked.stdout
