"""Client certificates from outside: who may use the endpoint, and what needs none."""

import asyncio
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from support.application_server import application_server
from support.certificates import Authority, self_signed
from support.http_shell import read_answers
from support.proxy_headers import line
from support.service import Service, running_service
from support.sockets import unused_port
from support.user_agent import UserAgent

CHALLENGE = 'Transport mode="tls-client-certificate"'


def fingerprint(path: Path) -> str:
    digest = x509.load_pem_x509_certificate(path.read_bytes()).fingerprint(hashes.SHA256())
    return digest.hex(":").upper()


class Clients:
    """A listed certificate, one that is not, and the authority that signed neither."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.listed = self_signed(folder / "listed.pem")
        self.unlisted = self_signed(folder / "unlisted.pem")
        self.issued = self.authority.issue(folder)
        self.proxy_port = unused_port()

    @property
    def options(self) -> list[str]:
        listed = json.dumps({"ours": [fingerprint(self.listed)]})
        proxied = ["--proxy-protocol-port", str(self.proxy_port)]
        return [*self.issued.options, "--client-certs", listed, *proxied]

    def tls(self, certificate: Path | None, version: str = "TLSv1_3") -> ssl.SSLContext:
        context = self.authority.client()
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Clients:
    return Clients(tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="module")
def running(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("certificates")
    with running_service(data, *clients.options, "--no-human-logs") as service:
        service.tls = clients.tls(None)
        yield service


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_a_client_with_a_listed_certificate_pushes_and_deletes(
    running: Service, clients: Clients, agents: list[UserAgent], version: str
) -> None:
    agents.append(await running.connect())  # the WebSocket port asks for no certificate
    _, endpoint = await agents[-1].register()
    async with application_server(tls=clients.tls(clients.listed, version)) as sender:
        answers = [await sender.push(endpoint, b"x" * 4096) for _ in range(3)]
        assert len(await agents[-1].receive(3)) == 3
        answer = await sender.delete(answers[0].headers["Location"])
        assert answer.status == 204
        too_large = await sender.push(endpoint, b"x" * 40_000)
        assert too_large.status == 413


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("presents", ["unlisted", "issued", "none"])
async def test_another_certificate_or_none_is_401(
    running: Service, clients: Clients, agents: list[UserAgent], presents: str, version: str
) -> None:
    agents.append(await running.connect())
    _, endpoint = await agents[-1].register()
    context = clients.tls({"unlisted": clients.unlisted}.get(presents), version)
    if presents == "issued":
        context.load_cert_chain(clients.issued.certificate, clients.issued.key)
    async with application_server(tls=context) as sender:
        for answer in (
            await sender.push(endpoint, b"x"),
            await sender.delete(f"{running.endpoint}/m/foo"),
            await sender.request("GET", f"{running.endpoint}/v1/err%2F..%2Fx"),
            await sender.request("POST", f"{running.endpoint}/status"),
        ):
            assert (answer.status, answer.document["errno"]) == (401, 109)
            assert answer.headers["WWW-Authenticate"] == CHALLENGE
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
    await running.logged("Failed TLS auth")


async def behind_the_proxy(clients: Clients, certificate: Path | None, path: str) -> int:
    """The status of a GET over TLS behind a PROXY header."""
    reader, writer = await asyncio.open_connection("127.0.0.1", clients.proxy_port)
    writer.write(line())
    await writer.drain()
    await writer.start_tls(clients.tls(certificate), server_hostname="127.0.0.1")
    writer.write(f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
    (answer,) = read_answers(await reader.read())
    writer.close()
    return answer.status


async def test_certificates_are_asked_for_behind_the_proxy_protocol_too(
    running: Service, clients: Clients
) -> None:
    assert await behind_the_proxy(clients, None, "/status") == 200
    assert await behind_the_proxy(clients, clients.unlisted, "/") == 401
    assert await behind_the_proxy(clients, clients.listed, "/") == 200
