"""deploy/nginx.conf: a real nginx with TLS in front of the service, on one host name."""

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from http.client import HTTPSConnection

import aiohttp
import pytest
import requests

from support.application_server import ApplicationServer
from support.certificates import LOOPBACK
from support.nginx import Nginx, Site
from support.user_agent import UserAgent


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


def test_nginx_accepts_the_recipe_without_a_warning(recipe: Nginx) -> None:
    said = recipe.check()
    assert "test is successful" in said
    assert "[warn]" not in said


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


def test_plain_http_leads_to_https(site: Site) -> None:
    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect)
    with pytest.raises(urllib.error.HTTPError) as moved:
        opener.open(f"http://{LOOPBACK}:{site.nginx.plain_port}/wpush/v1/x", timeout=30)
    assert moved.value.code == 308
    assert moved.value.headers["Location"] == f"https://{LOOPBACK}/wpush/v1/x"
    moved.value.close()


def test_an_upgrade_in_other_letters_is_a_web_socket(site: Site, tls: ssl.SSLContext) -> None:
    connection = HTTPSConnection(LOOPBACK, site.nginx.port, context=tls, timeout=30)
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
    def post(size: int) -> tuple[int, bytes]:
        connection = HTTPSConnection(LOOPBACK, site.nginx.port, context=tls, timeout=30)
        try:
            connection.request("POST", "/wpush/v1/token", body=b"x" * size)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    status, body = post(5000)
    assert json.loads(body)["code"] == status  # the service's own refusal
    assert post(70_000)[0] == 413


def test_no_endpoint_is_in_a_log_of_nginx(site: Site) -> None:
    secret = "gAAAAABsecret"
    get(site, f"/wpush/v1/{secret}")
    get(site, "/status")
    log = site.nginx.folder / "access.log"
    assert not log.exists() or secret not in log.read_text()
    assert not [line for line in site.nginx.log if secret in line]


def test_the_internal_port_is_not_reached(site: Site) -> None:
    uaid = "0" * 32
    for path in (f"/push/{uaid}", f"/notif/{uaid}"):
        assert get(site, path).status_code == 404
