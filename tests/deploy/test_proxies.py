"""The recipes for nginx, Caddy and HAProxy: a real proxy with TLS in front of the service, on one
host name.
"""

import asyncio
import json
import re
import shlex
import ssl
from collections.abc import AsyncIterator
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import aiohttp
import pytest
import requests

from support.application_server import ApplicationServer, application_server
from support.certificates import LOOPBACK
from support.page_examples import code_blocks, page
from support.proxies import Caddy, HAProxy, Nginx, ReverseProxy, Site, prepare_site, running_site
from support.service import service
from support.sockets import unused_port
from support.tools import need, run_captured
from support.user_agent import UserAgent

PROXIES = [Nginx, Caddy, HAProxy]


@pytest.fixture
def tls(site: Site) -> ssl.SSLContext:
    return site.authority.client()


@pytest.fixture
async def sender(tls: ssl.SSLContext) -> AsyncIterator[ApplicationServer]:
    connector = aiohttp.TCPConnector(ssl=tls)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield ApplicationServer(session)


def get(site: Site, path: str, **headers: str) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.get(
            site.https + path, verify=str(site.authority.path), headers=headers, timeout=30
        )


async def test_a_push_goes_through_https_and_wss_on_one_host_name(
    site: Site, tls: ssl.SSLContext, sender: ApplicationServer
) -> None:
    agent = await UserAgent.connect(f"{site.wss}/", tls=tls)
    try:
        await agent.hello()
        channel, endpoint = await agent.register()
        assert endpoint.startswith(f"{site.https}/wpush/v1/")
        answer = await sender.push(endpoint, b"through nginx")
        assert answer.headers["Location"].startswith(f"{site.https}/m/")
        message = await agent.notification()
        assert (message["channelID"], message["version"]) == (channel, answer.message_id)
        await agent.ack([message])
        stored = await sender.push(endpoint, b"to be deleted", topic="t")
        assert (await agent.notification())["version"] == stored.message_id
        assert (await sender.delete(stored.headers["Location"])).status == 204
        await agent.unregister(channel)
        assert (await sender.push(endpoint)).status == 410
    finally:
        await agent.close()


async def test_many_pushes_share_the_connections_to_the_service(
    site: Site, tls: ssl.SSLContext, sender: ApplicationServer
) -> None:
    agent = await UserAgent.connect(f"{site.wss}/", tls=tls)
    try:
        await agent.hello()
        _, endpoint = await agent.register()
        answers = await asyncio.gather(*(sender.push(endpoint, b"x" * 4096) for _ in range(50)))
        assert [answer.status for answer in answers] == [201] * 50
        received = await agent.receive(50, ack=True)
        sent = {answer.message_id for answer in answers}
        assert {message["version"] for message in received} == sent
    finally:
        await agent.close()


async def test_a_close_of_the_service_reaches_the_user_agent(
    site: Site, tls: ssl.SSLContext
) -> None:
    agent = await UserAgent.connect(f"{site.wss}/", tls=tls)
    try:
        await agent.send(messageType="nonsense")
        assert await agent.closed() is not None
    finally:
        await agent.close()


async def test_a_web_socket_may_have_a_path(site: Site, tls: ssl.SSLContext) -> None:
    # As the Ingress of deploy/kubernetes needs it.
    agent = await UserAgent.connect(f"{site.wss}/ws", tls=tls)
    try:
        assert (await agent.hello())["status"] == 200
    finally:
        await agent.close()


def test_the_start_page_shows_the_public_urls(site: Site) -> None:
    page = get(site, "/")
    assert page.status_code == 200
    assert f"{site.wss}/" in page.text
    assert site.https in page.text
    for port in site.service.ports.values():
        assert f":{port}" not in page.text
    assert get(site, "/start/demo.js").headers["Content-Type"].startswith("text/javascript")
    assert get(site, "/service-worker.js").status_code == 200


def test_errors_are_explained_on_the_same_host(site: Site) -> None:
    refused = get(site, "/wpush/v1/nonsense")
    assert refused.status_code == 405
    assert refused.json()["more_info"].startswith(f"{site.https}/errors#")
    assert get(site, "/errors").status_code == 200


def test_the_registration_api_and_the_status_pages_are_reached(site: Site) -> None:
    assert get(site, "/v1/nothing/app/registration").status_code != 502
    for path in ("/health", "/status", "/__lbheartbeat__", "/__heartbeat__", "/__version__"):
        assert get(site, path).status_code == 200, path


def test_browsers_are_told_to_keep_to_https(site: Site) -> None:
    page = get(site, "/status")
    assert page.headers["Strict-Transport-Security"].startswith("max-age=")


def test_an_upgrade_in_other_letters_is_a_web_socket(site: Site, tls: ssl.SSLContext) -> None:
    connection = HTTPSConnection(LOOPBACK, site.proxy.port, context=tls, timeout=30)
    try:
        connection.request(
            "GET",
            "/",
            headers={
                "Connection": "keep-alive, Upgrade",
                "Upgrade": "WebSocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            },
        )
        assert connection.getresponse().status == 101
    finally:
        connection.close()


def test_what_is_too_large_is_refused_with_413(site: Site, tls: ssl.SSLContext) -> None:
    def post(size: int, path: str = "/wpush/v1/token") -> tuple[int, bytes]:
        connection = HTTPSConnection(LOOPBACK, site.proxy.port, context=tls, timeout=30)
        try:
            connection.request("POST", path, body=b"x" * size)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    status, body = post(5000)
    assert json.loads(body)["code"] == status  # the service's own refusal
    assert post(70_000)[0] == 413
    # A notification of Matrix may be larger: it is the service that refuses this one.
    status, body = post(70_000, "/_matrix/push/v1/notify")
    assert json.loads(body)["code"] == status


def test_the_commands_that_check_a_deployment_end_and_show_what_the_page_says(site: Site) -> None:
    need("curl", "apt-get install curl")
    [block] = [
        block for block in code_blocks(page("deployment"), "console") if "Sec-WebSocket" in block
    ]
    commands = block.replace("\\\n", "").replace("https://push.example.org", site.https)
    outputs = []
    for command in commands.removeprefix("$ ").split("\n$ "):
        words = shlex.split(command.replace("--max-time 3", "--max-time 0.5"))
        done = run_captured(
            [words[0], "--silent", "--cacert", site.authority.path, *words[1:]], timeout=30
        )
        outputs.append((done.returncode, done.stdout.splitlines()[0]))
    (first, status), (second, upgrade) = outputs
    assert (first, second) == (0, 28)
    assert json.loads(status)["status"] == "OK"
    assert upgrade.startswith("HTTP/1.1 101 ")


def test_the_internal_port_is_not_reached(site: Site) -> None:
    uaid = "0" * 32
    for path in (f"/push/{uaid}", f"/notif/{uaid}"):
        assert get(site, path).status_code == 404


# ── Without the service ───────────────────────────────────────────────────────────────────────────

every_proxy = pytest.mark.parametrize("kind", PROXIES, ids=lambda kind: kind.name)


@every_proxy
def test_the_program_accepts_the_recipe_without_a_warning(
    kind: type[ReverseProxy], tmp_path: Path
) -> None:
    proxy = prepare_site(tmp_path, kind).proxy
    assert [line for line in proxy.check().splitlines() if re.search(kind.complaint, line)] == []


@every_proxy
def test_no_endpoint_is_in_a_log_while_the_service_is_down(
    kind: type[ReverseProxy], tmp_path: Path
) -> None:
    site = prepare_site(tmp_path, kind)
    site.proxy.configuration.write_text(
        site.proxy.configuration.read_text().replace("retries 15", "retries 0")
    )
    secret = "gAAAAABsecret"
    with site.proxy:
        tls = site.authority.client()
        connection = HTTPSConnection(LOOPBACK, site.proxy.port, context=tls, timeout=30)
        connection.request("POST", f"/wpush/v1/{secret}", body=b"x" * 4096)
        assert connection.getresponse().status in {502, 503}
        connection.close()
    assert not [line for line in site.proxy.log if secret in line]
    files = [file for file in tmp_path.rglob("*.log") if file.is_file()]
    assert not [file for file in files if secret in file.read_text()]


@pytest.mark.parametrize("kind", [Nginx, HAProxy], ids=lambda kind: kind.name)
def test_plain_http_leads_to_https(kind: type[ReverseProxy], tmp_path: Path) -> None:
    site = prepare_site(tmp_path, kind)
    with site.proxy:
        connection = HTTPConnection(LOOPBACK, site.proxy.plain_port, timeout=30)
        connection.request("GET", "/wpush/v1/x", headers={"Host": LOOPBACK})
        response = connection.getresponse()
        assert response.status == 308
        assert response.headers["Location"] == f"https://{LOOPBACK}/wpush/v1/x"
        connection.close()


@pytest.mark.parametrize(
    ("kind", "status"), [(Caddy, 502), (HAProxy, 201)], ids=["caddy", "haproxy"]
)
async def test_a_push_while_the_service_restarts_waits_in_haproxy_and_fails_in_caddy(
    kind: type[ReverseProxy], status: int, tmp_path: Path
) -> None:
    site = prepare_site(tmp_path, kind)
    tls = site.authority.client()
    await site.service.start()
    try:
        connector = aiohttp.TCPConnector(ssl=tls)
        with site.proxy:
            async with aiohttp.ClientSession(connector=connector) as session:
                sender = ApplicationServer(session)
                agent = await UserAgent.connect(f"{site.wss}/", tls=tls)
                await agent.hello()
                _, endpoint = await agent.register()
                await agent.close()
                await site.service.stop()
                push = asyncio.create_task(sender.push(endpoint, b"x" * 4096))
                if status == 502:
                    assert (await push).status == status
                await site.service.start()
                assert (await push).status == status
    finally:
        await site.service.stop()


async def test_a_silent_web_socket_outlives_the_timeouts_of_haproxy(tmp_path: Path) -> None:
    prepared = prepare_site(tmp_path, HAProxy)
    text = prepared.proxy.configuration.read_text()
    for name in ("client ", "server "):
        text, count = re.subn(rf"timeout {name} +(60|75)s", f"timeout {name} 100ms", text)
        assert count == 1
    prepared.proxy.configuration.write_text(text)
    with running_site(prepared) as site:
        agent = await UserAgent.connect(f"{site.wss}/", tls=site.authority.client())
        await agent.hello()
        await agent.silence()
        assert (await agent.register())[1].startswith(site.https)
        await agent.close()


async def test_the_recipe_for_the_proxy_protocol_passes_pushes_on(tmp_path: Path) -> None:
    site = prepare_site(tmp_path, HAProxy)
    [recipe] = code_blocks(page("proxies"), "text")
    proxied = unused_port()
    for shipped, used in (
        (":443", f"{LOOPBACK}:{site.proxy.port}"),
        ("10.0.0.11:8083", f"{LOOPBACK}:{proxied}"),
        ("    server two 10.0.0.12:8083 send-proxy-v2 check check-send-proxy\n", ""),
    ):
        assert recipe.count(shipped) == 1
        recipe = recipe.replace(shipped, used)
    site.proxy.configuration.write_text(recipe)
    assert "[WARNING]" not in site.proxy.check()
    public = f"http://{LOOPBACK}:{site.proxy.port}"
    options = ("--proxy-protocol-port", str(proxied), "--endpoint-url", public)
    async with service(tmp_path / "data", *options) as running, application_server() as sender:
        with site.proxy:
            agent = await running.connect()
            _, endpoint = await agent.register()
            assert endpoint.startswith(f"{public}/")
            assert (await sender.push(endpoint)).status == 201
            await agent.close()


async def test_a_proxy_reaches_the_service_by_a_unix_socket_too(tmp_path: Path) -> None:
    site = prepare_site(tmp_path, Nginx)
    place, path = f"{LOOPBACK}:{site.proxy.upstream} ", f"unix:{tmp_path}/public.sock"
    recipe = site.proxy.configuration
    recipe.write_text(recipe.read_text().replace(place, f"{path} "))
    site.service.options += ["--host", path, "--workers", "2"]
    tls = site.authority.client()
    connector = aiohttp.TCPConnector(ssl=tls)
    with running_site(site):
        async with aiohttp.ClientSession(connector=connector) as session:
            agent = await UserAgent.connect(f"{site.wss}/", tls=tls)
            await agent.hello()
            _, endpoint = await agent.register()
            sender = ApplicationServer(session)
            answer = await sender.push(endpoint, b"through a socket")
            assert (await agent.notification())["version"] == answer.message_id
            await agent.close()
