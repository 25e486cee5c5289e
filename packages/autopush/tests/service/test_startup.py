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

from autopush.keys import ServiceKeys
from autopush.service import startup
from autopush.service.startup import StartStopped, StopSignal, announce, announce_addresses
from autopush.settings import Settings, StartupError

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
        startup.run(Settings(workers=workers), Settings)
    assert steps == ["prepare_data_folder", "service_keys", "bind", "divide", "try_store"]


def test_a_data_folder_that_nothing_is_kept_in_is_not_created(steps: list[str]) -> None:
    with pytest.raises(StartupError):
        startup.run(
            Settings(command="connection", store="dynamodb://", crypto_key=("k",)), Settings
        )
    assert "prepare_data_folder" not in steps


@pytest.mark.parametrize("no_aws", [False, True])
def test_no_aws_keeps_the_whole_process_from_asking_the_instance_metadata_service(
    steps: list[str], monkeypatch: pytest.MonkeyPatch, no_aws: bool
) -> None:
    monkeypatch.setattr(os, "environ", {})
    with pytest.raises(StartupError):
        startup.run(Settings(no_aws=no_aws), Settings)
    assert os.environ == ({"AWS_EC2_METADATA_DISABLED": "true"} if no_aws else {})


# What is reported


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            Settings(data=Path("/d")),
            (
                "autopush ready: start page http://127.0.0.1:8080/ "
                "· WebSocket ws://127.0.0.1:8080/ · node API 127.0.0.1:8081 · data /d"
            ),
        ),
        (
            Settings(data=Path("/d"), store="dynamodb://eu-west-1", workers=3),
            (
                "autopush ready: start page http://127.0.0.1:8080/ "
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


# ── SIGTERM during the start, also where what a signal handler raises is lost ─────────────────────

NewLoop = Callable[[], asyncio.AbstractEventLoop]
TIMEOUT = 30

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
    monkeypatch.setattr(startup, "bind", lambda settings, *_: (settings, []))
    monkeypatch.setattr(startup, "announce_addresses", lambda _: None)
    monkeypatch.setattr(startup, "try_store", receive_and_wait)
    before = signal.getsignal(signal.SIGTERM)
    assert startup.run(Settings(command="connection"), Settings) == 0
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
