"""The thread beside the loop."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from keytables.sqlite.aide import Aide, Job


@pytest.fixture
async def aide() -> AsyncIterator[Aide]:
    made = Aide(asyncio.get_running_loop(), "aide")
    yield made
    made.stop()


async def outcome(aide: Aide, job: Job) -> Exception | None:
    done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    aide.do(job, done.set_result)
    return await done


async def test_a_job_runs_in_another_thread_and_ends_on_the_loop(aide: Aide) -> None:
    where: list[threading.Thread] = []

    def job() -> None:
        where.append(threading.current_thread())

    assert await outcome(aide, job) is None
    assert where[0] is not threading.current_thread()
    assert not aide.busy


async def test_what_a_job_returns_or_raises_is_its_outcome(aide: Aide) -> None:
    error = ValueError()

    def fail() -> None:
        raise error

    assert await outcome(aide, lambda: error) is error
    assert await outcome(aide, fail) is error
    assert await outcome(aide, lambda: None) is None


async def test_jobs_may_follow_from_the_end_of_another(aide: Aide) -> None:
    done = asyncio.get_running_loop().create_future()
    left = 100

    def again(_: Exception | None) -> None:
        nonlocal left
        left -= 1
        if left:
            aide.do(lambda: None, again)
        else:
            done.set_result(None)

    aide.do(lambda: None, again)
    await done


async def test_a_slow_job_is_noticed_by_an_idle_loop(aide: Aide) -> None:
    release = threading.Event()
    asyncio.get_running_loop().call_later(0.05, release.set)

    def job() -> None:
        assert release.wait(10)

    assert await outcome(aide, job) is None


async def test_the_end_of_a_job_is_noticed_when_its_message_does_not_come(
    aide: Aide, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So it is for long when the loop never sleeps: the thread does not get to send it.
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *_: None)
    for _ in range(5):
        assert await outcome(aide, lambda: None) is None


async def test_a_late_message_ends_no_other_job(
    aide: Aide, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    late: list[tuple[Any, ...]] = []
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *call: late.append(call))
    assert await outcome(aide, lambda: None) is None
    monkeypatch.undo()
    release = threading.Event()

    def wait() -> None:
        release.wait(10)

    second = asyncio.ensure_future(outcome(aide, wait))
    await asyncio.sleep(0)
    for call, *arguments in late:
        call(*arguments)
    assert aide.busy
    release.set()
    assert await second is None


async def test_a_thread_left_behind_does_a_last_thing() -> None:
    aide = Aide(asyncio.get_running_loop(), "aide")
    release, last = threading.Event(), threading.Event()

    def wait() -> None:
        release.wait(10)

    aide.do(wait, lambda _: None)
    aide.stop(last.set)
    assert not last.is_set()
    release.set()
    await asyncio.to_thread(aide._thread.join, 10)
    assert last.is_set()


async def test_a_thread_that_is_not_left_behind_does_not() -> None:
    aide = Aide(asyncio.get_running_loop(), "aide")
    last = threading.Event()
    await outcome(aide, lambda: None)
    aide.stop(last.set)
    await asyncio.to_thread(aide._thread.join, 10)
    assert not last.is_set()
