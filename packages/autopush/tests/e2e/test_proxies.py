"""The port for load balancers that speak the PROXY protocol, beside the normal one."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from support.http_shell import ReceivedResponse, read_answers
from support.proxy_headers import CLIENT4, CLIENT6, binary, line
from support.service import Service, running_service
from support.sockets import unused_port


@pytest.fixture(scope="module")
def proxy_port() -> int:
    return unused_port()


@pytest.fixture(scope="module")
def running(proxy_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    options = ("--proxy-protocol-port", str(proxy_port), "--workers", "2")
    with running_service(tmp_path_factory.mktemp("proxied"), *options) as service:
        yield service


async def get(port: int, path: str, header: bytes = b"") -> list[ReceivedResponse]:
    """What is answered until the service closes; nothing where it closes unanswered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    writer.write(header + head.encode())
    try:
        return read_answers(await reader.read())
    except ConnectionResetError:
        return []
    finally:
        writer.close()


@pytest.mark.parametrize("header", [line(), binary(), line(CLIENT6, "TCP6"), binary(CLIENT6)])
async def test_the_endpoint_answers_behind_a_proxy_header(
    running: Service, proxy_port: int, header: bytes
) -> None:
    (answer,) = await get(proxy_port, "/status", header)
    assert (answer.status, json.loads(answer.body)["status"]) == (200, "OK")


async def test_a_connection_without_a_header_is_closed_and_the_operator_hears_of_it(
    running: Service, proxy_port: int
) -> None:
    assert await get(proxy_port, "/status") == []
    await running.logged("Connections without PROXY header")
    (report,) = [text for text in running.output if "Connections without PROXY header" in text]
    assert "127.0.0.1" in report
    assert CLIENT4 not in report
