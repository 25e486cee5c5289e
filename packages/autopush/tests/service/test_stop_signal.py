"""SIGTERM during the start ends it, also where what a signal handler raises is lost."""

import asyncio
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable

import pytest
import uvloop

from autopush.service import startup
from autopush.service.startup import StartStopped, StopSignal
from autopush.settings import Settings

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
    for name in ("prepare_data_folder", "service_keys", "report_empty_file", "report_damage"):
        monkeypatch.setattr(startup, name, lambda *_, **__: None)
    monkeypatch.setattr(startup, "bind", lambda settings: (settings, []))
    monkeypatch.setattr(startup, "announce_addresses", lambda _: None)
    monkeypatch.setattr(startup, "check_store", receive_and_wait)
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
