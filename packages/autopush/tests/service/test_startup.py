"""The start: its order, the data folder, and what it reports."""

import asyncio
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from autopush.bridges.discovery import load_routers
from autopush.keys import ServiceKeys
from autopush.service import startup
from autopush.service.startup import (
    StartStopped,
    StopSignal,
    announce,
    announce_addresses,
    announce_keys,
    announce_routers,
)
from autopush.settings import Settings, StartupError
from support.clocks import ManualClock

KEYS = ServiceKeys(("k",), ("a",))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps of starts that fail when the store is checked, in order."""
    taken: list[str] = []

    def step(name: str, answer: object = None) -> None:
        def take(*_: object, **__: object) -> object:
            taken.append(name)
            return answer

        monkeypatch.setattr(startup, name, take)

    async def try_store(*_: object) -> None:
        taken.append("try_store")
        raise StartupError("no store")

    step("prepare_data_folder")
    step("service_keys", KEYS)
    step("bind", (Settings(), []))
    step("serve", 0)
    step("Supervisor", 0)
    step("divide")
    monkeypatch.setattr(startup, "try_store", try_store)
    step("check_keys")
    step("save_keys", KEYS)
    return taken


@pytest.mark.parametrize("workers", [1, 2])
def test_folder_keys_ports_and_store_are_checked_before_any_worker_starts(
    steps: list[str], workers: int
) -> None:
    with pytest.raises(StartupError, match="no store"):
        startup.run(Settings(workers=workers))
    assert steps == ["prepare_data_folder", "service_keys", "bind", "divide", "try_store"]


def test_a_data_folder_that_nothing_is_kept_in_is_not_created(steps: list[str]) -> None:
    with pytest.raises(StartupError):
        startup.run(Settings(command="connection", store="dynamodb://", crypto_key=("k",)))
    assert "prepare_data_folder" not in steps


@pytest.mark.parametrize("no_aws", [False, True])
def test_no_aws_keeps_the_whole_process_from_asking_the_instance_metadata_service(
    steps: list[str], monkeypatch: pytest.MonkeyPatch, no_aws: bool
) -> None:
    monkeypatch.setattr(os, "environ", {})
    with pytest.raises(StartupError):
        startup.run(Settings(no_aws=no_aws))
    assert os.environ == ({"AWS_EC2_METADATA_DISABLED": "true"} if no_aws else {})


# What is reported


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            Settings(data=Path("/d")),
            (
                "autopush ready: start page http://127.0.0.1:8082/ "
                "· WebSocket ws://127.0.0.1:8080/ · node API 127.0.0.1:8081 · data /d"
            ),
        ),
        (
            Settings(data=Path("/d"), store="dynamodb://eu-west-1", workers=3),
            (
                "autopush ready: start page http://127.0.0.1:8082/ "
                "· WebSocket ws://127.0.0.1:8080/ · node API 127.0.0.1:8081 "
                "· store dynamodb://eu-west-1 workers=3"
            ),
        ),
        (
            Settings(data=Path("/d"), command="connection", router_hostname="node1"),
            (
                "autopush connection ready: WebSocket ws://127.0.0.1:8080/ · node API node1:8081 "
                "· store /d/autopush.sqlite"
            ),
        ),
        (
            Settings(
                command="endpoint",
                host="::1",
                port=9000,
                endpoint_url="https://push.example",
                aws_ddb_endpoint="http://127.0.0.1:8000",
            ),
            (
                "autopush endpoint ready: start page https://push.example/ · HTTP [::1]:9000 "
                "· store dynamodb://?endpoint=http://127.0.0.1:8000"
            ),
        ),
    ],
)
def test_the_ready_line_says_what_is_served(
    capsys: pytest.CaptureFixture[str], settings: Settings, line: str
) -> None:
    announce(settings)
    assert capsys.readouterr().out == f"{line}\n"


@pytest.mark.parametrize("name", ["crypto_key", "auth_key"])
@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (Settings(), False),
        (Settings(command="connection"), True),
        (Settings(command="endpoint"), True),
        (Settings(store="dynamodb://"), True),
    ],
)
def test_a_node_of_a_cluster_that_created_a_key_of_its_own_warns_that_others_need_it(
    end_logs: Callable[[], str], settings: Settings, warned: bool, name: str
) -> None:
    announce_keys(settings, ServiceKeys(("k",), ("a",), made=(Path("/d/keys") / name,)))
    text = end_logs()
    assert f"/d/keys/{name}" in text
    others = {"crypto_key": "all other nodes", "auth_key": "all other endpoint nodes"}
    assert (f"{others[name]} need the same one" in text) == warned


# ── What is logged of bridges ───────────────────────────────────────────────────────────────────


def test_bridges_are_logged_with_what_the_operator_has_to_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    settings = Settings(
        senderid_list={"7": {"auth": "key-of-gcm"}},
        adm_creds={"p": {"client_id": "i", "client_secret": "key-of-adm"}},
    )
    announce_routers(load_routers(settings, ManualClock()))
    first, warning = caplog.records
    assert (first.levelname, vars(first)["fields"]) == ("INFO", {"routers": ["adm", "gcm"]})
    assert (warning.levelname, vars(warning)["fields"]) == ("WARNING", {"router": "gcm"})
    assert "shut down" in warning.getMessage()
    assert "key-of" not in caplog.text


def test_without_bridges_nothing_is_logged_of_them(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    announce_routers({})
    assert caplog.records == []


# Addresses


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (Settings(), "Listening on 127.0.0.1; port 8081, on 127.0.0.1, must not be public"),
        (
            Settings(host="::"),
            "Listening on every interface; port 8081, on 127.0.0.1, must not be public",
        ),
        (
            Settings(host="::", router_host="0.0.0.0"),
            "Listening on every interface; port 8081, on every interface, must not be public",
        ),
        (Settings(command="endpoint", host="0.0.0.0"), "Listening on every interface"),
    ],
)
def test_where_the_ports_listen_is_logged(
    caplog: pytest.LogCaptureFixture, settings: Settings, line: str
) -> None:
    caplog.set_level("INFO")
    announce_addresses(settings)
    assert caplog.messages[0] == line


CLUSTER = "dynamodb://"
EVERYWHERE = "The internal port listens on every interface"
UNREACHABLE = "Nodes on other machines cannot reach this one"


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        (Settings(), ""),
        (Settings(host="0.0.0.0"), ""),
        (Settings(host="0.0.0.0", router_hostname="node.invalid"), EVERYWHERE),
        (Settings(host="0.0.0.0", router_hostname="node.invalid", router_host="0.0.0.0"), ""),
        (Settings(command="endpoint", host="0.0.0.0", store=CLUSTER), ""),
        (Settings(store=CLUSTER), UNREACHABLE),
        (Settings(command="connection"), UNREACHABLE),
        (Settings(command="connection", store=CLUSTER), UNREACHABLE),
        (Settings(command="connection", hostname="192.0.2.7"), ""),
        (Settings(router_hostname="192.0.2.7", store=CLUSTER), ""),
        (Settings(hostname="192.0.2.7", router_hostname="localhost", store=CLUSTER), UNREACHABLE),
        (Settings(command="endpoint", store=CLUSTER), ""),
    ],
)
def test_an_internal_port_that_is_everywhere_unasked_or_out_of_reach_is_a_warning(
    caplog: pytest.LogCaptureFixture, settings: Settings, warning: str
) -> None:
    announce_addresses(settings)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == bool(warning)
    assert all(line.startswith(warning) for line in lines)


# ── SIGTERM during the start, also where what a signal handler raises is lost ─────────────────────

NewLoop = Callable[[], asyncio.AbstractEventLoop]
TIMEOUT = 10

both_loops = pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)


class Dying:
    """Something that a weak reference refers to."""


def receive_where_errors_are_lost() -> None:
    """SIGTERM comes, and is handled, in the callback of a weak reference."""
    dying = Dying()
    reference = weakref.ref(dying, lambda _: signal.raise_signal(signal.SIGTERM))
    del dying
    assert reference() is None


async def wait() -> None:
    async with asyncio.timeout(TIMEOUT):
        await asyncio.Event().wait()


async def receive_and_wait(*_: object) -> None:
    receive_where_errors_are_lost()
    await wait()


def test_a_start_ends_that_waits_for_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = "prepare_data_folder", "service_keys", "report_empty_file", "report_damage", "divide"
    for name in steps:
        monkeypatch.setattr(startup, name, lambda *_, **__: None)
    monkeypatch.setattr(startup, "bind", lambda settings, _: (settings, []))
    monkeypatch.setattr(startup, "announce_addresses", lambda _: None)
    monkeypatch.setattr(startup, "try_store", receive_and_wait)
    before = signal.getsignal(signal.SIGTERM)
    assert startup.run(Settings(command="connection")) == 0
    assert signal.getsignal(signal.SIGTERM) is before


@both_loops
def test_what_a_loop_runs_is_cancelled_and_may_clean_up(new_loop: NewLoop) -> None:
    steps: list[str] = []

    async def step() -> None:
        try:
            await receive_and_wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    stop = StopSignal()
    with stop.handled(), pytest.raises(StartStopped):
        stop.run(step(), new_loop)
    assert steps == ["cleaned up"]


@both_loops
def test_a_loop_that_is_idle_is_woken(new_loop: NewLoop) -> None:
    async def step() -> None:
        asyncio.get_running_loop().call_soon(killing.start)
        await wait()

    killing = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGTERM))

    stop = StopSignal()
    with stop.handled(), pytest.raises(StartStopped):
        stop.run(step(), new_loop)
    killing.join()


def test_off_the_loop_it_ends_the_start_at_once() -> None:
    stop = StopSignal()
    with stop.handled(), pytest.raises(StartStopped):
        signal.raise_signal(signal.SIGTERM)


def test_what_is_lost_off_the_loop_is_noticed_by_the_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: lost.append(args.exc_type))
    stop = StopSignal()
    with stop.handled():
        receive_where_errors_are_lost()
        assert lost == [StartStopped]
        with pytest.raises(StartStopped):
            stop.run(wait())
        with pytest.raises(StartStopped):
            stop.check()


@both_loops
def test_without_a_signal_a_step_has_its_result_or_its_error(new_loop: NewLoop) -> None:
    async def result() -> int:
        return 5

    async def cancelled() -> None:
        raise asyncio.CancelledError

    stop = StopSignal()
    with stop.handled():
        assert stop.run(result(), new_loop) == 5
        with pytest.raises(asyncio.CancelledError):
            stop.run(cancelled(), new_loop)
        stop.check()
