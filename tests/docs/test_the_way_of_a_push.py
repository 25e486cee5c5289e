"""The ways of a push, an ack and a hello in the page on architecture are what the code does."""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

from autopush.service.app import Worker
from autopush.service.storage import open_store
from support.application_server import application_server
from support.paths import PACKAGES, ROOT
from support.service_context import service_context
from support.user_agent import UserAgent

PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
STEP = re.compile(r"^(?P<module>[a-z_/0-9]+\.py) +(?P<function>[\w.]+)", re.MULTILINE)
FLOWS = {"push": "The way of a push", "ack": "The way of an ack", "hello": "The way of a hello"}
BESIDE = {
    "api/browsers.py",
    "net/timers.py",
    "clock.py",
    "delivery/node.py",
    "service/store_watch.py",
    "keytables/checks.py",
    "keytables/sqlite/space.py",
    "telemetry/metrics.py",
    "telemetry/process.py",
}
"""Modules that are not shown: whether a web page asks, deadlines, the node, the probe of each
second, the checks of every key, the counters, and what is looked at every few seconds.
"""
COMMIT = {f"keytables/sqlite/{name}.py" for name in ("writer", "locks")}
"""Not shown of an ack, as it may come later."""


class Step(NamedTuple):
    """A call: the module below its package's `src`, without `autopush/`, and the function."""

    module: str
    function: str


def picture(flow: str) -> list[Step]:
    """The steps of the text block below the heading of that flow."""
    block = PAGE.split(f"\n### {FLOWS[flow]}\n")[1].split("```")[1]
    return [Step(*match.group("module", "function")) for match in STEP.finditer(block)]


@contextmanager
def traced() -> Iterator[list[Step]]:
    """The calls of this thread into the source of the project, in order."""
    calls: list[Step] = []
    sources = str(PACKAGES)

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(sources):
            module = frame.f_code.co_filename.rpartition("/src/")[2].removeprefix("autopush/")
            calls.append(Step(module, frame.f_code.co_qualname.replace("<locals>.", "")))

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.fixture
async def flows(tmp_path: Path) -> dict[str, list[Step]]:
    """What happens at a push to a connected user agent, at its ack, and at its next hello."""
    service = service_context(tmp_path)
    store = await open_store(service.settings, time.time)
    metrics = service.metrics.of_worker(0)
    worker = Worker(service, 0, metrics, store, time.time)
    await worker.start()
    url = f"ws://127.0.0.1:{service.settings.port}/"
    agent = await UserAgent.connect(url)
    await agent.hello()
    _, endpoint = await agent.register()

    async with application_server() as sender:
        for _ in range(2):  # what is remembered is remembered, what is compiled is compiled
            await sender.push(endpoint, b"x" * 100)
            await agent.ack([await agent.notification()])
            await agent.register()  # committed after what was acked
        with traced() as push:
            await sender.push(endpoint, b"x" * 100)
            notification = await agent.notification()
        with traced() as ack:
            await agent.ack([notification])
            await agent.send(messageType="unregister")  # refused at once
            await agent.reply()
        await agent.close()
        await sender.push(endpoint, b"x" * 100)

    async def come_back() -> UserAgent:
        returned = await UserAgent.connect(url)
        await returned.hello(agent.uaid)
        await returned.notification()
        return returned

    await (await come_back()).close()  # not acked: it is sent again
    with traced() as hello:
        returned = await come_back()
    await returned.close()
    await worker.stop()
    await store.close()
    return {"push": push, "ack": ack, "hello": hello}


@pytest.mark.parametrize("flow", FLOWS)
async def test_each_step_of_the_picture_happens_in_that_order(
    flows: dict[str, list[Step]], flow: str
) -> None:
    steps, calls = picture(flow), iter(flows[flow])
    assert len(steps) > 5
    for step in steps:
        assert step in calls, f"{step} does not come after the steps above it"


@pytest.mark.parametrize(
    ("flow", "beside"), [("push", BESIDE), ("ack", BESIDE | COMMIT), ("hello", BESIDE)]
)
async def test_every_module_on_the_way_is_in_the_picture(
    flows: dict[str, list[Step]], flow: str, beside: set[str]
) -> None:
    shown = {step.module for step in picture(flow)}
    assert {call.module for call in flows[flow]} - beside == shown
