"""What the service manager hears, on a socket as systemd gives one to a unit."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from autopush.service import systemd
from autopush.service.systemd import ServiceManager, passed_sockets
from support.event_loops import until
from support.fake_loop import FakeLoop
from support.service import service

PATIENCE = 30.0

Open = Callable[..., ServiceManager]


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """Listens at a name of the abstract kind, as in a container of its own."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0autopush-test-{os.getpid()}")
        receiver.setblocking(False)
        yield receiver


def test_the_sockets_of_the_unit_are_taken_once_with_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        first = os.dup(ours.fileno())
        monkeypatch.setattr(systemd, "FIRST_PASSED", first)
        given = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "endpoint"}
        [(name, sock)] = passed_sockets(given)
        with sock:
            assert (name, sock.getsockname()) == ("endpoint", ours.getsockname())
            assert not os.get_inheritable(first)
        assert given == {}
        assert passed_sockets({"LISTEN_PID": "1", "LISTEN_FDS": "1"}) == []


def variables(receiver: socket.socket, **others: str) -> dict[str, str]:
    address = receiver.getsockname()
    name = f"@{address[1:].decode()}" if isinstance(address, bytes) else str(address)
    return {"NOTIFY_SOCKET": name, **others}


@pytest.fixture
def open_manager(manager: socket.socket) -> Iterator[Open]:
    """Opens what reports there, with these variables besides the address."""
    with ExitStack() as opened:
        yield lambda **others: opened.enter_context(
            closing(ServiceManager(variables(manager, **others)))
        )


def heard(receiver: socket.socket) -> list[bytes]:
    """All that was sent so far."""
    states = []
    while True:
        try:
            states.append(receiver.recv(4096))
        except BlockingIOError:
            return states


def test_it_reports_twice_in_the_time_that_the_manager_waits(
    manager: socket.socket, open_manager: Open
) -> None:
    notifier = open_manager(WATCHDOG_USEC="20000000")
    notifier.report_alive(1.0)
    assert heard(manager) == [], "it is not ready"
    notifier.report_ready(2.0)
    notifier.report_alive(2.0)
    assert heard(manager) == [b"READY=1", b"WATCHDOG=1"]
    notifier.report_alive(11.9)
    assert heard(manager) == []
    assert notifier.due == 12.0
    notifier.report_alive(12.0)
    assert heard(manager) == [b"WATCHDOG=1"]


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"},
    ],
    ids=str,
)
def test_a_manager_that_waits_for_no_sign_of_life_gets_none(
    manager: socket.socket, open_manager: Open, others: dict[str, str]
) -> None:
    notifier = open_manager(**others)
    notifier.report_ready(1.0)
    notifier.report_alive(1e6)
    assert heard(manager) == [b"READY=1"]
    assert notifier.due is None


def test_without_a_manager_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_socket(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(socket, "socket", no_socket)
    notifier = ServiceManager({"WATCHDOG_USEC": "1000"})
    notifier.report_ready(1.0)
    notifier.report_alive(2.0)
    assert notifier.due is None


def test_a_manager_that_does_not_read_holds_nothing_up(
    manager: socket.socket, open_manager: Open
) -> None:
    notifier = open_manager(WATCHDOG_USEC="2000000")
    for second in range(10_000):
        notifier.report_ready(float(second))
    heard(manager)
    manager.close()
    notifier.report_alive(1e6)


def test_the_sign_of_life_is_that_of_the_loop(manager: socket.socket, open_manager: Open) -> None:
    loop = FakeLoop()
    open_manager(WATCHDOG_USEC="20000000").report_from(loop.loop)
    assert heard(manager) == [b"READY=1", b"WATCHDOG=1"]
    loop.advance(30.0)
    assert heard(manager) == [b"WATCHDOG=1"] * 3


def test_after_an_upgrade_the_other_process_is_the_main_one_and_reports(
    manager: socket.socket, open_manager: Open
) -> None:
    notifier = open_manager(WATCHDOG_USEC="20000000")
    notifier.report_ready(1.0)
    heard(manager)
    notifier.report_successor(4711)
    assert heard(manager) == [b"MAINPID=4711\nWATCHDOG=1"]
    assert notifier.due is None


def test_after_a_failed_upgrade_this_process_is_the_main_one_again_and_reports(
    manager: socket.socket, open_manager: Open
) -> None:
    notifier = open_manager(WATCHDOG_USEC="20000000")
    notifier.report_ready(1.0)
    notifier.report_successor(4711)
    heard(manager)
    notifier.report_return(5.0)
    assert heard(manager) == [f"MAINPID={os.getpid()}\nWATCHDOG=1".encode()]
    assert notifier.due == 15.0


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_service_reports_ready_once_and_alive_until_it_is_frozen(
    tmp_path: Path, manager: socket.socket, workers: int
) -> None:
    loop = asyncio.get_running_loop()

    async def hear(is_enough: Callable[[list[bytes]], bool]) -> list[bytes]:
        states: list[bytes] = []
        async with asyncio.timeout(PATIENCE):
            while not is_enough(states):
                states.append(await loop.sock_recv(manager, 4096))
        return states

    given = variables(manager, WATCHDOG_USEC="400000")
    async with service(tmp_path, "--workers", str(workers), **given) as running:
        states = await hear(lambda states: states.count(b"WATCHDOG=1") == 4)
        assert states == [b"READY=1", *[b"WATCHDOG=1"] * 4]
        os.kill(running.pid, signal.SIGSTOP)
        try:
            state = Path(f"/proc/{running.pid}/stat")
            await until(lambda: ") T " in state.read_text())  # what was on its way has come
            heard(manager)
            await asyncio.sleep(0.5)
            assert heard(manager) == []
        finally:
            os.kill(running.pid, signal.SIGCONT)
        await hear(lambda states: len(states) == 2)
