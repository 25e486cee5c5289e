"""The ports of this machine."""

import errno
import socket
from collections.abc import Iterator

import pytest

from autopush.commands.checks import PortUse
from autopush.commands.checks.ports import check_ports, look_at_ports, service_version
from autopush.settings import Settings
from autopush.version import VERSION
from support.checks import answering, findings, json_response, subject
from support.sockets import unused_port

OURS = json_response({"status": "OK", "version": VERSION})
ORIGINAL = json_response({"status": "OK", "version": "1.33.0"})
OTHER = json_response({"status": "up"})


@pytest.fixture
def occupied() -> Iterator[int]:
    """A port on which a program listens that answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autopush.commands.checks.probe.TIMEOUT", 0.3)


async def test_free_ports_are_well() -> None:
    settings = Settings(command="endpoint", port=unused_port())
    assert await look_at_ports(settings) == {"endpoint": PortUse.FREE}
    examined = subject(settings, ports={"endpoint": PortUse.FREE})
    assert await findings(check_ports, examined) == [("OK", f"port {settings.port}: free")]
    assert await look_at_ports(Settings(command="endpoint", port=0)) == {}
    examined = subject(Settings(command="endpoint", port=0))
    assert await findings(check_ports, examined) == [("OK", "port 0: any free port")]


@pytest.mark.parametrize(
    ("response", "use"),
    [(OURS, PortUse.OURS), (ORIGINAL, PortUse.OTHER_VERSION), (OTHER, PortUse.OTHER)],
)
async def test_who_listens_is_recognised_by_its_status(response: bytes, use: PortUse) -> None:
    async with answering(response) as server:
        settings = Settings(command="endpoint", port=server.port)
        assert await look_at_ports(settings) == {"endpoint": use}


async def test_a_program_that_does_not_answer_is_another_one(occupied: int) -> None:
    settings = Settings(command="endpoint", port=occupied)
    assert await look_at_ports(settings) == {"endpoint": PortUse.OTHER}


async def test_a_port_that_cannot_be_asked_is_ours_when_another_one_is(occupied: int) -> None:
    silent = {"proxied": PortUse.OTHER, "endpoint": PortUse.FREE}
    settings = Settings(command="endpoint", port=unused_port(), proxy_protocol_port=occupied)
    assert await look_at_ports(settings) == silent
    async with answering(OURS) as server:
        settings = Settings(command="endpoint", port=server.port, proxy_protocol_port=occupied)
        assert set((await look_at_ports(settings)).values()) == {PortUse.OURS}


async def test_an_address_of_another_machine_and_a_forbidden_port_are_recognised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for host in ("192.0.2.1", "no-such-host.invalid", "a" * 64 + ".example"):
        settings = Settings(command="endpoint", host=host, port=unused_port())
        assert await look_at_ports(settings) == {"endpoint": PortUse.NO_ADDRESS}

    class Refusing(socket.socket):
        def bind(self, _: object, /) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "socket", Refusing)
    settings = Settings(command="endpoint", port=80)
    assert await look_at_ports(settings) == {"endpoint": PortUse.FORBIDDEN}


@pytest.mark.parametrize(
    ("use", "level", "advice"),
    [
        (PortUse.OURS, "OK", ""),
        (PortUse.OTHER_VERSION, "WARN", f"Restart the service: {VERSION} is installed"),
        (PortUse.OTHER, "FAIL", "choose another port with --router-port"),
        (PortUse.FORBIDDEN, "FAIL", "CAP_NET_BIND_SERVICE"),
        (PortUse.NO_ADDRESS, "FAIL", "Set host to an address of this machine"),
    ],
)
async def test_what_keeps_the_service_from_a_port_says_what_to_do(
    use: PortUse, level: str, advice: str
) -> None:
    uses = {"websocket": PortUse.OURS, "router": use, "endpoint": PortUse.OURS}
    _, (found, text), _ = await findings(check_ports, subject(Settings(), ports=uses))
    assert (found, advice in text) == (level, True)


async def test_a_public_router_port_and_an_unreachable_node_are_warnings() -> None:
    free = {"websocket": PortUse.FREE, "router": PortUse.FREE}
    node = Settings(command="connection", hostname="192.0.2.7", host="0.0.0.0")
    (level, text) = (await findings(check_ports, subject(node, ports=free)))[-1]
    assert (level, "router_port 8081 listens on every interface" in text) == ("WARN", True)
    node = Settings(command="connection")
    (level, text) = (await findings(check_ports, subject(node, ports=free)))[-1]
    assert (level, "cannot reach http://127.0.0.1:8081" in text) == ("WARN", True)


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (b'{"status": "OK", "version": "1.33"}', "1.33"),
        (b'{"status": "NOT OK", "version": "1"}', ""),
        *((b'{"status": "OK"}', ""), (b'{"status": "OK", "version": 1}', "")),
        *((b"[]", ""), (b"<html>", ""), (b"\xff", ""), (b"", "")),
    ],
)
def test_only_the_answer_of_this_service_has_a_version(body: bytes, version: str) -> None:
    assert service_version(body) == version
