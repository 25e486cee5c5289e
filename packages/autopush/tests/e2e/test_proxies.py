"""The port for load balancers that speak the PROXY protocol, beside the normal one."""

from collections.abc import Iterator

import pytest

from support.proxy_headers import CLIENT4, CLIENT6, binary, line
from support.raw_client import raw_client
from support.service import Service, running_service
from support.sockets import unused_port

STATUS = b"GET /status HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.fixture(scope="module")
def proxy_port() -> int:
    return unused_port()


@pytest.fixture(scope="module")
def running(proxy_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    options = ("--proxy-protocol-port", str(proxy_port), "--workers", "2")
    with running_service(tmp_path_factory.mktemp("proxied"), *options) as service:
        yield service


@pytest.mark.parametrize("header", [line(), binary(), line(CLIENT6, "TCP6"), binary(CLIENT6)])
async def test_the_endpoint_answers_behind_a_proxy_header(
    running: Service, proxy_port: int, header: bytes
) -> None:
    async with raw_client(proxy_port) as client:
        client.send(header + STATUS)
        answer = await client.answer()
    assert (answer.status, answer.document["status"]) == (200, "OK")


async def test_a_connection_without_a_header_is_closed_and_the_operator_hears_of_it(
    running: Service, proxy_port: int
) -> None:
    async with raw_client(proxy_port) as client:
        client.send(STATUS)
        assert await client.end() == b""
    await running.logged("Connections without PROXY header")
    (report,) = [text for text in running.output if "Connections without PROXY header" in text]
    assert "127.0.0.1" in report
    assert CLIENT4 not in report
