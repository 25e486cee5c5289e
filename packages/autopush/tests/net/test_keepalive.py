"""The kernel's probes: set on a listening socket they hold for every accepted one."""

import socket
import sys

import pytest

from autopush.net.keepalive import keep_alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the names are Linux's")

EXPECTED = {
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 300,
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 60,
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): 4,
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT): 60_000,
}


def options(sock: socket.socket) -> dict[tuple[int, int], int]:
    return {(level, name): sock.getsockopt(level, name) for level, name in EXPECTED}


def test_an_accepted_socket_has_the_options_of_the_listening_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        keep_alive(listening)
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert options(accepted) == EXPECTED


def test_times_are_seconds() -> None:
    with socket.socket() as sock:
        keep_alive(sock, idle=10, interval=2, count=3, unanswered=7)
        assert list(options(sock).values()) == [1, 10, 2, 3, 7000]


def test_options_unknown_to_the_platform_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    with socket.socket() as sock:
        keep_alive(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
