"""The thread for calls that may block."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from keytables.sqlite.writer import Job, WorkerThread

NAME = "worker-under-test"


@pytest.fixture
async def worker() -> AsyncIterator[WorkerThread]:
    started = WorkerThread(asyncio.get_running_loop(), NAME)
    yield started
    started.stop()


async def error_of(worker: WorkerThread, job: Job) -> Exception | None:
    done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    worker.submit(job, done.set_result)
    return await done


async def wait_for_end() -> None:
    for thread in threading.enumerate():
        if thread.name == NAME:
            await asyncio.to_thread(thread.join, 10)
            assert not thread.is_alive()


async def test_what_a_job_returns_or_raises_is_its_error(worker: WorkerThread) -> None:
    error = ValueError()

    def fail() -> None:
        raise error

    assert await error_of(worker, lambda: error) is error
    assert await error_of(worker, fail) is error
    assert await error_of(worker, lambda: None) is None


async def test_the_end_of_a_job_is_noticed_when_its_message_does_not_come(
    worker: WorkerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As when the loop is never idle: the thread does not get the interpreter lock to send it.
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *_: None)
    for _ in range(5):
        assert await error_of(worker, lambda: None) is None


async def test_a_late_message_ends_no_other_job(
    worker: WorkerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    late: list[tuple[Any, ...]] = []
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *call: late.append(call))
    assert await error_of(worker, lambda: None) is None
    monkeypatch.undo()
    release = threading.Event()

    def wait() -> None:
        release.wait(10)

    second = asyncio.ensure_future(error_of(worker, wait))
    await asyncio.sleep(0)
    for call, *arguments in late:
        call(*arguments)
    assert worker.is_busy
    release.set()
    assert await second is None


async def test_an_abandoned_thread_calls_back_at_its_end() -> None:
    worker = WorkerThread(asyncio.get_running_loop(), NAME)
    release, last = threading.Event(), threading.Event()

    def wait() -> None:
        release.wait(10)

    worker.submit(wait, lambda _: None)
    worker.stop(last.set)
    assert not last.is_set()
    release.set()
    await wait_for_end()
    assert last.is_set()


async def test_a_thread_that_is_stopped_without_a_job_does_not_call_back() -> None:
    worker = WorkerThread(asyncio.get_running_loop(), NAME)
    last = threading.Event()
    await error_of(worker, lambda: None)
    worker.stop(last.set)
    await wait_for_end()
    assert not last.is_set()
