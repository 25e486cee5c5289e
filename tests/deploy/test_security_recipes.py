"""The lines for nginx and Caddy in docs/security.md, within the recipes of deploy/."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path

import aiohttp
import pytest

from support.application_server import ApplicationServer
from support.certificates import LOOPBACK
from support.page_examples import code_blocks, page
from support.proxies import Caddy, Nginx, Site, prepare_site, running_site
from support.user_agent import UserAgent

LIMITS_ABOVE, LIMITS_INSIDE, SECRET_PATH = code_blocks(page("security"), "nginx")
CADDY_GLOBAL, CADDY_SITE = code_blocks(page("security"), "text")

IN_SERVER = "client_max_body_size 1m;"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}

Change = Callable[[str], str]


def with_limits(recipe: str) -> str:
    assert recipe.count(IN_SERVER) == 1
    inside = recipe.replace(IN_SERVER, f"{IN_SERVER}\n{LIMITS_INSIDE}")
    return f"{LIMITS_ABOVE}\n{inside}"


def with_one_upgrade_a_minute(recipe: str) -> str:
    changed = with_limits(recipe)
    for value, lower in (("rate=10r/s", "rate=1r/m"), ("burst=500", "burst=1")):
        assert changed.count(value) == 1
        changed = changed.replace(value, lower)
    return changed


def without_monitoring(recipe: str) -> str:
    return with_limits(recipe).replace("allow 127.0.0.1;", "")


def with_secret_path(recipe: str) -> str:
    """The block of the page in place of the location."""
    first = recipe.index("    location / {", recipe.index(IN_SERVER))
    return f"{recipe[:first]}{SECRET_PATH}}}\n"


def prepared(folder: Path, change: Change) -> Site:
    """A service, not started, and nginx in front of it with a changed recipe."""
    site = prepare_site(folder, Nginx)
    recipe = site.proxy.configuration
    recipe.write_text(change(recipe.read_text()))
    return site


@contextmanager
def running(folder: Path, change: Change) -> Iterator[Site]:
    with running_site(prepared(folder, change)) as site:
        yield site


def status(site: Site, path: str, **headers: str) -> int:
    tls = site.authority.client()
    connection = HTTPSConnection(LOOPBACK, site.proxy.port, context=tls, timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("change", [with_limits, with_secret_path])
def test_nginx_accepts_the_lines_without_a_warning(change: Change, tmp_path: Path) -> None:
    said = prepared(tmp_path, change).proxy.check()
    assert "test is successful" in said
    assert "[warn]" not in said


async def test_a_push_goes_through_the_limits_of_nginx(tmp_path: Path) -> None:
    with running(tmp_path, with_limits) as site:
        assert status(site, "/health") == 200  # of this machine
        await push_one(site, "/")


async def test_upgrades_of_one_address_are_limited_and_pushes_are_not(tmp_path: Path) -> None:
    with running(tmp_path, with_one_upgrade_a_minute) as site:
        answers = [status(site, "/", **UPGRADE) for _ in range(4)]
        assert answers == [101, 101, 429, 429]
        assert [status(site, "/wpush/v1/token") for _ in range(4)] == [405] * 4
        assert site.proxy.complaints == []


async def test_status_pages_are_for_this_machine_only(tmp_path: Path) -> None:
    with running(tmp_path, without_monitoring) as site:
        for path in ("/health", "/status", "/__heartbeat__", "/__version__", "/v1/err/crit"):
            assert status(site, path) == 403, path
        assert status(site, "/__lbheartbeat__") == 200
        assert status(site, "/errors") == 200


async def test_with_a_secret_path_nothing_else_opens_a_web_socket(tmp_path: Path) -> None:
    [path] = [line.split()[2] for line in SECRET_PATH.splitlines() if "location = " in line]
    with running(tmp_path, with_secret_path) as site:
        assert status(site, "/", **UPGRADE) == 404
        for closed in ("/", "/health", "/v1/webpush/app/registration", "/spush/v1/token"):
            assert status(site, closed) == 404, closed
        await push_one(site, path)


async def push_one(site: Site, path: str) -> None:
    """A push reaches a user agent that connects at this path."""
    tls = site.authority.client()
    agent = await UserAgent.connect(f"{site.wss}{path}", tls=tls)
    try:
        await agent.hello()
        _, endpoint = await agent.register()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:
            answer = await ApplicationServer(session).push(endpoint)
        assert (await agent.notification())["version"] == answer.message_id
    finally:
        await agent.close()


def test_caddy_accepts_its_lines_and_hides_the_status_pages(tmp_path: Path) -> None:
    site = prepare_site(tmp_path, Caddy)
    recipe = site.proxy.configuration.read_text()
    for line, more in (("{\n", CADDY_GLOBAL), ("\treverse_proxy ", CADDY_SITE)):
        assert recipe.count(f"\n{line}") == 1
        text = f"{line}{more}" if line == "{\n" else f"{more}{line}"
        recipe = recipe.replace(f"\n{line}", f"\n{text}")
    site.proxy.configuration.write_text(recipe.replace("not remote_ip 127.0.0.1", ""))
    with running_site(site):
        assert status(site, "/health") == 403
        assert status(site, "/__lbheartbeat__") == 200
