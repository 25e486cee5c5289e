"""Binding the ports: which are shared, which are refused; how many connections they may have."""

import contextlib
import gc
import resource
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from autopush.service.listeners import (
    MAX_INTERNAL,
    PassedSocket,
    Sockets,
    bind,
    close,
    connections_allowed,
    internal_connections_allowed,
    is_shared,
)
from autopush.settings import Settings, StartupError
from support.sockets import unused_port, unused_ports

Bind = Callable[..., tuple[Settings, list[Sockets]]]
PURPOSES = {"port": "websocket", "endpoint_port": "endpoint", "router_port": "router"}
OPTIONS = tuple(PURPOSES)


@pytest.fixture
def bound(tmp_path: Path) -> Iterator[Bind]:
    """Bind with these options; every port not among them is any free one."""
    opened: list[Sockets] = []

    def do(
        inherited: Sequence[Sockets] = (),
        passed: Sequence[PassedSocket] = (),
        managed: Sequence[str] = (),
        **options: object,
    ) -> tuple[Settings, list[Sockets]]:
        ports = dict.fromkeys(OPTIONS, 0)
        settings = Settings(data=tmp_path, **(ports | options))  # type: ignore[arg-type]
        settings, sockets = bind(settings, inherited, passed, managed)
        opened.extend(sockets)
        return settings, sockets

    yield do
    for sockets in opened:
        close(sockets)


def port_of(sock: socket.socket) -> int:
    port = sock.getsockname()[1]
    assert isinstance(port, int)
    return port


@pytest.fixture
def other_program() -> Iterator[Callable[..., int]]:
    """Has another program listen on a port; returns the port."""
    listening: list[socket.socket] = []

    def listen(*, reuse_port: bool = False) -> int:
        sock = socket.socket()
        listening.append(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        return port_of(sock)

    yield listen
    for sock in listening:
        sock.close()


def connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


# ── one worker ──────────────────────────────────────────────────────────────────────────────────


def test_port_0_binds_a_free_port_and_the_settings_name_it(bound: Bind) -> None:
    settings, (sockets,) = bound()
    taken = (
        port_of(sockets["websocket"]),
        port_of(sockets["endpoint"]),
        port_of(sockets["router"]),
    )
    assert taken == (settings.port, settings.endpoint_port, settings.router_port)
    assert len(set(taken)) == 3
    assert 0 not in taken


def test_a_requested_port_is_bound(bound: Bind) -> None:
    port = unused_port()
    settings, (sockets,) = bound(port=port)
    assert settings.port == port_of(sockets["websocket"]) == port


def test_bound_ports_accept_connections(bound: Bind) -> None:
    settings, _ = bound()
    assert all(connects(getattr(settings, option)) for option in OPTIONS)


def test_the_sockets_do_not_block(bound: Bind) -> None:
    _, (sockets,) = bound()
    for sock in sockets.values():
        with pytest.raises(BlockingIOError):
            sock.accept()


def test_all_ports_listen_on_the_host_only(bound: Bind) -> None:
    _, (sockets,) = bound(host="127.0.0.1")
    for sock in sockets.values():
        assert sock.getsockname()[0] == "127.0.0.1"


def test_an_ipv6_host_is_listened_on(bound: Bind) -> None:
    try:
        settings, (sockets,) = bound(host="::1")
    except StartupError as error:
        pytest.skip(f"no IPv6 here: {error}")
    assert sockets["websocket"].family is socket.AF_INET6
    socket.create_connection(("::1", settings.port)).close()


def test_closing_frees_the_ports(bound: Bind) -> None:
    settings, (sockets,) = bound()
    close(sockets)
    again, _ = bound(
        port=settings.port, endpoint_port=settings.endpoint_port, router_port=settings.router_port
    )
    assert again.port == settings.port


# ── the ports of one kind of node ───────────────────────────────────────────────────────────────


def test_one_public_port_is_that_of_the_endpoint(bound: Bind) -> None:
    settings, (sockets,) = bound(endpoint_port=None)
    assert sockets.keys() == {"endpoint", "router"}
    assert settings.port == settings.port_of_endpoints == port_of(sockets["endpoint"])


def test_a_connection_node_binds_no_endpoint_port(bound: Bind) -> None:
    taken = unused_port()
    with socket.create_server(("127.0.0.1", taken)):
        settings, (sockets,) = bound(command="connection", endpoint_port=taken)
    assert sockets.keys() == {"websocket", "router"}
    ports = (port_of(sockets["websocket"]), port_of(sockets["router"]))
    assert ports == (settings.port, settings.router_port)
    assert settings.endpoint_port == taken


def test_an_endpoint_node_binds_its_port_only_and_its_urls_have_it_by_default(bound: Bind) -> None:
    settings, (sockets,) = bound(command="endpoint", endpoint_port=None)
    assert sockets.keys() == {"endpoint"}
    assert settings.port == settings.port_of_endpoints == port_of(sockets["endpoint"])
    settings, (sockets,) = bound(command="endpoint", endpoint_port=443)
    assert settings.port == port_of(sockets["endpoint"])
    assert settings.endpoint_port == 443


def test_the_workers_of_an_endpoint_node_share_its_port(
    bound: Bind, other_program: Callable[..., int]
) -> None:
    settings, workers = bound(command="endpoint", workers=2)
    assert {port_of(each["endpoint"]) for each in workers} == {settings.port}
    with pytest.raises(StartupError, match="--port"):
        bound(command="endpoint", workers=2, port=other_program(reuse_port=True))


# ── Unix sockets ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("workers", [1, 2])
def test_a_unix_socket_takes_the_place_of_the_public_port(
    bound: Bind, tmp_path: Path, workers: int
) -> None:
    path = tmp_path / "public.sock"
    at_path = {"host": f"unix:{path}", "endpoint_port": None, "workers": workers}
    path.write_text("")
    with pytest.raises(StartupError, match="no socket"):
        bound(**at_path)
    path.unlink()
    _, sockets = bound(**at_path)
    assert [each["endpoint"].getsockname() for each in sockets] == [str(path)] * workers
    assert sockets[0]["router"].getsockname()[0] == "127.0.0.1"
    assert path.stat().st_mode & 0o777 == 0o666
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    with pytest.raises(StartupError, match="something listens there"):
        bound(**at_path)
    for each in sockets:
        close(each)
    bound(**at_path)  # what a former process has left is no obstacle


# ── sockets of the service manager ──────────────────────────────────────────────────────────────


@pytest.fixture
def passed() -> Iterator[socket.socket]:
    """A listening socket of somebody else."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


ONE = {"endpoint_port": None}


def test_the_only_socket_of_the_service_manager_is_the_public_port(
    bound: Bind, passed: socket.socket
) -> None:
    settings, workers = bound((), [PassedSocket("autopush.socket", passed)], workers=2, **ONE)
    assert workers[0]["endpoint"] is passed
    assert settings.port == port_of(passed)
    assert is_shared(workers[1]["endpoint"])
    # The next version has it from this one, and its settings name another port.
    again, (first, _) = bound(workers, workers=2, port=1, managed=["endpoint"], **ONE)
    assert (first["endpoint"], again.port) == (passed, settings.port)


def test_a_socket_of_the_service_manager_is_found_by_its_name_or_port(
    bound: Bind, passed: socket.socket
) -> None:
    for name, port in (("metrics", 0), ("other", port_of(passed))):
        copy = [PassedSocket(name, passed.dup())]
        settings, (sockets,) = bound((), copy, metrics_port=port)
        assert (sockets["metrics"], settings.metrics_port) == (copy[0].sock, port_of(passed))


def test_a_socket_that_no_option_asks_for_stops_the_start(
    bound: Bind, passed: socket.socket
) -> None:
    both = [PassedSocket("endpoint", passed), PassedSocket("web", passed.dup())]
    with pytest.raises(StartupError, match="named 'web', that no option asks for"):
        bound((), both, **ONE)
    assert [each.sock.fileno() for each in both] == [-1, -1]


# ── several workers ─────────────────────────────────────────────────────────────────────────────


def test_workers_share_the_public_ports(bound: Bind) -> None:
    settings, workers = bound(workers=3)
    assert len(workers) == 3
    assert {port_of(each["websocket"]) for each in workers} == {settings.port}
    assert {port_of(each["endpoint"]) for each in workers} == {settings.endpoint_port}


def test_each_worker_has_its_own_internal_port_and_the_first_the_requested_one(bound: Bind) -> None:
    port = unused_port()
    settings, workers = bound(workers=3, router_port=port)
    assert settings.router_port == port_of(workers[0]["router"]) == port
    assert len({port_of(each["router"]) for each in workers}) == 3


def test_further_workers_listen_on_the_ports_from_the_one_that_is_given(bound: Bind) -> None:
    first = unused_ports(2)
    _, workers = bound(workers=3, worker_router_port=first)
    assert [port_of(each["router"]) for each in workers[1:]] == [first, first + 1]
    with (
        socket.create_server(("127.0.0.1", unused_ports(2))) as other,
        pytest.raises(StartupError, match="--worker-router-port"),
    ):
        bound(workers=3, worker_router_port=port_of(other))


def test_the_port_of_challenges_is_not_a_worker_s(bound: Bind) -> None:
    settings, (first, second) = bound(workers=2, domain=("push.example",), http_port=0)
    assert port_of(first["http"]) == settings.http_port
    assert "http" not in second
    same, used = bind(settings, [first, second])
    assert used == [first, second]
    assert same.http_port == settings.http_port


def test_the_port_of_the_console_is_the_first_worker_s(bound: Bind) -> None:
    """Else the kernel would give every other connection to a worker that has no console."""
    settings, (first, second) = bound(workers=2, console=True, console_port=0, host="0.0.0.0")
    assert first["console"].getsockname() == ("127.0.0.1", settings.console_port)
    assert "console" not in second


def test_requested_public_ports_are_shared_too(bound: Bind) -> None:
    port = unused_port()
    settings, workers = bound(workers=2, port=port)
    assert settings.port == port
    assert {port_of(each["websocket"]) for each in workers} == {port}


def test_connections_are_spread_over_the_workers(bound: Bind) -> None:
    settings, workers = bound(workers=2)
    clients = [socket.create_connection(("127.0.0.1", settings.port)) for _ in range(64)]
    accepted = []
    for each in workers:
        count = 0
        while True:
            try:
                connection, _ = each["websocket"].accept()
            except BlockingIOError:
                break
            connection.close()
            count += 1
        accepted.append(count)
    for client in clients:
        client.close()
    assert sum(accepted) == 64
    assert all(accepted)


# ── a port that another program uses ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("reuse_port", [False, True])
@pytest.mark.parametrize("option", OPTIONS)
def test_a_port_in_use_is_refused_with_its_flag_and_never_shared(
    bound: Bind, other_program: Callable[..., int], option: str, reuse_port: bool, workers: int
) -> None:
    port = other_program(reuse_port=reuse_port)
    with pytest.raises(StartupError) as caught:
        bound(workers=workers, **{option: port})
    text = str(caught.value)
    assert f"port {port}" in text
    assert f"--{option.replace('_', '-')}" in text
    assert "\n" not in text


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("option", OPTIONS)
def test_a_second_service_does_not_share_the_ports_of_the_first(
    bound: Bind, option: str, workers: int
) -> None:
    first, _ = bound(workers=2)
    with pytest.raises(StartupError, match="in use"):
        bound(workers=workers, **{option: getattr(first, option)})


def test_two_ports_cannot_be_the_same(bound: Bind) -> None:
    port = unused_port()
    with pytest.raises(StartupError, match="in use"):
        bound(port=port, endpoint_port=port)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("option", ["endpoint_port", "router_port"])
def test_a_start_that_fails_leaves_no_port_bound(
    bound: Bind, other_program: Callable[..., int], option: str, workers: int
) -> None:
    port = unused_port()
    with pytest.raises(StartupError) as caught:
        bound(workers=workers, port=port, **{option: other_program()})
    assert not connects(port), "still bound while the error is handled"
    del caught
    gc.collect()  # an unclosed socket would warn, which fails this test


@pytest.mark.parametrize(
    "host", ["192.0.2.1", "no such host", "a" * 64 + ".example", "..", "é" * 80]
)
def test_an_address_that_cannot_be_bound_is_refused_in_one_line(bound: Bind, host: str) -> None:
    with pytest.raises(StartupError, match="cannot listen on") as caught:
        bound(host=host)
    assert host in str(caught.value)
    assert "\n" not in str(caught.value)


def test_public_ports_have_the_send_buffer_of_the_settings(bound: Bind) -> None:
    _, [sockets] = bound(send_buffer=20_000)
    sizes = {
        purpose: sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        for purpose, sock in sockets.items()
    }
    assert sizes["websocket"] == sizes["endpoint"] == 40_000  # Linux counts twice the size
    assert sizes["router"] != 40_000


def test_what_is_kept_for_a_client_that_does_not_read_is_bounded(bound: Bind) -> None:
    def taken(size: int) -> int:
        _, [sockets] = bound(send_buffer=size)
        listening = sockets["websocket"]
        with (
            socket.create_connection(("127.0.0.1", port_of(listening))),
            listening.accept()[0] as s,
        ):
            s.setblocking(False)
            total = 0
            with contextlib.suppress(BlockingIOError):
                while total < 16 << 20:
                    total += s.send(bytes(1 << 16))
            return total

    # What the client's own system takes counts too: up to a megabyte or so on the loopback.
    assert taken(16_384) + 900_000 < taken(1 << 20)


# ── open files ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("files", "wanted", "allowed"),
    [
        (1024, 0, 824),
        (200_000, 0, 180_000),
        (256, 0, 128),
        (1024, 500, 500),
        (1024, 5000, 824),
        (resource.RLIM_INFINITY, 0, 0),
        (resource.RLIM_INFINITY, 500, 500),
    ],
)
def test_descriptors_are_kept_for_what_is_not_a_connection_of_a_client(
    monkeypatch: pytest.MonkeyPatch, files: int, wanted: int, allowed: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert connections_allowed(wanted) == allowed


@pytest.mark.parametrize(
    ("files", "allowed"),
    [
        (1024, 100),
        (20_000, 1000),
        (1_000_000, MAX_INTERNAL),
        (resource.RLIM_INFINITY, MAX_INTERNAL),
    ],
)
def test_connections_of_nodes_leave_half_of_what_is_kept_from_clients(
    monkeypatch: pytest.MonkeyPatch, files: int, allowed: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert internal_connections_allowed() == allowed


def test_a_next_version_uses_the_sockets_that_listen_where_it_should(bound: Bind) -> None:
    settings, sockets = bound(workers=2)
    ports = {option: port_of(sockets[0][each]) for option, each in PURPOSES.items()}
    same, used = bind(settings.with_ports(**ports), sockets)
    assert used == sockets
    assert {option: getattr(same, option) for option in OPTIONS} == ports
    other = unused_port()
    _, used = bind(settings.with_ports(**(ports | {"port": other})), sockets)
    assert [port_of(each["websocket"]) for each in used] == [other, other]
    assert [each["endpoint"] for each in used] == [each["endpoint"] for each in sockets]
    for each in used:
        each["websocket"].close()


def test_a_next_version_with_another_number_of_workers_does_not_start(
    bound: Bind, tmp_path: Path
) -> None:
    _, sockets = bound(workers=2)
    with pytest.raises(StartupError, match="workers: 2 are running"):
        bind(Settings(data=tmp_path, workers=3), sockets)
