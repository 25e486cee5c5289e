"""Headless Chromium for tests, driven over its own DevTools protocol; it needs `websockets` only.

    async def test_the_page_has_a_title(browser: Chromium) -> None:
        page = await browser.open("http://localhost:8082/")
        await page.until("document.querySelector('#done')")
        title = await page.evaluate("document.title")

One process serves all tests of a run and ends with it. The fixture `browser` is for one test: its
tabs share storage, permissions and service workers with those of no other test.

Every wait is for an event and has a time limit, after which it raises an error that names the
event.
"""

import asyncio
import atexit
import base64
import contextlib
import functools
import itertools
import json
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from support.tools import end_kept, need, start_kept

Json = dict[str, Any]

TIMEOUT = 60.0  # seconds for one command or one wait
INSTALL = "apt-get install --no-install-recommends chromium"
NAMES = ("chromium", "chromium-browser", "google-chrome")
LOCAL = "EXCLUDE localhost, EXCLUDE 127.0.0.1"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--password-store=basic",
    # Whatever is not on this machine does not exist for it; `push.example` is this machine under a
    # name that is no secure context.
    f"--host-resolver-rules=MAP push.example 127.0.0.1, MAP * ~NOTFOUND, {LOCAL}",
    "--remote-debugging-port=0",
)


class ChromiumError(Exception):
    """Chromium refused a command, or a page threw."""


def find_chromium() -> str:
    """The path of a Chromium; without one the test is skipped, and fails where CI is `true`."""
    return need(NAMES[0], INSTALL, *NAMES)


class Page:
    """One tab."""

    def __init__(self, browser: "Chromium", session: str) -> None:
        self._browser = browser
        self._session = session

    async def command(self, method: str, **parameters: object) -> Json:
        """A DevTools command to this tab, for example `Page.reload`."""
        return await self._browser.command(method, parameters, self._session)

    def on(self, method: str, listener: Callable[[Json], object]) -> None:
        """Call the listener with the parameters of each event of that name in this tab."""
        self._browser.listen(method, self._session, listener)

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression as JSON; a promise is awaited.

        :raises ChromiumError: the expression threw
        """
        answer = await self.command(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if thrown := answer.get("exceptionDetails"):
            raise ChromiumError(thrown.get("exception", {}).get("description", thrown["text"]))
        return answer["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true, asking once a frame."""
        await self.evaluate(
            f"""new Promise((resolve, reject) => {{
              const end = performance.now() + {TIMEOUT * 1000};
              const ask = async () => {{
                if (await ({condition})) resolve();
                else if (performance.now() > end)
                  reject(new Error("never came true: " + {json.dumps(condition)}));
                else setTimeout(ask, 20);
              }};
              ask();
            }})"""
        )

    async def goto(self, url: str) -> None:
        """Open a URL here and wait until it is loaded, with its modules.

        :raises ChromiumError: it could not be loaded
        """
        loads: asyncio.Queue[str] = asyncio.Queue()

        def note(event: Json) -> None:
            if event["name"] == "load":
                loads.put_nowait(event["loaderId"])

        self.on("Page.lifecycleEvent", note)
        answer = await self.command("Page.navigate", url=url)
        if error := answer.get("errorText"):
            raise ChromiumError(f"{url}: {error}")
        async with asyncio.timeout(TIMEOUT):
            while await loads.get() != answer["loaderId"]:
                pass  # of the page before, which may come late

    async def before_load(self, script: str) -> None:
        """Run a script in every document opened here, before its own scripts."""
        await self.command("Page.addScriptToEvaluateOnNewDocument", source=script)

    async def emulate(
        self,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        media: dict[str, str] | None = None,
    ) -> None:
        """Set the size of the window in CSS pixels, and what media queries find."""
        await self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = {"prefers-color-scheme": "dark" if dark else "light", **(media or {})}
        await self.command(
            "Emulation.setEmulatedMedia",
            features=[{"name": name, "value": value} for name, value in features.items()],
        )

    async def screenshot(self, path: Path) -> None:
        """A PNG of the whole page, not only of what the window shows."""
        size = (await self.command("Page.getLayoutMetrics"))["cssContentSize"]
        answer = await self.command(
            "Page.captureScreenshot",
            captureBeyondViewport=True,
            clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
        )
        await asyncio.to_thread(path.write_bytes, base64.b64decode(answer["data"]))


class Chromium:
    """The browser of one test, as Chromium's incognito windows are one."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._context = ""
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._listeners: dict[tuple[str, str | None], list[Callable[[Json], object]]] = {}
        self._reader = asyncio.create_task(self._read())

    async def command(
        self, method: str, parameters: Json | None = None, session: str | None = None
    ) -> Json:
        """A DevTools command; its result.

        :raises ChromiumError: Chromium refused it, or ended
        """
        number = next(self._numbers)
        message: Json = {"id": number, "method": method, "params": parameters or {}}
        if session is not None:
            message["sessionId"] = session
        answer = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        await self._socket.send(json.dumps(message))
        try:
            return await asyncio.wait_for(answer, TIMEOUT)
        except TimeoutError:
            raise ChromiumError(f"no answer to {method} in {TIMEOUT} s") from None
        finally:
            del self._waiting[number]

    def listen(self, method: str, session: str | None, listener: Callable[[Json], object]) -> None:
        """Call the listener with the parameters of each event of that name."""
        self._listeners.setdefault((method, session), []).append(listener)

    async def begin(self) -> None:
        """Begin a profile of its own, which ends with the connection."""
        made = await self.command("Target.createBrowserContext", {"disposeOnDetach": True})
        self._context = made["browserContextId"]

    async def open(self, url: str = "about:blank") -> Page:
        """A new tab; with a URL, once that is loaded."""
        target = await self.command(
            "Target.createTarget", {"url": "about:blank", "browserContextId": self._context}
        )
        attached = await self.command(
            "Target.attachToTarget", {"targetId": target["targetId"], "flatten": True}
        )
        page = Page(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log"):
            await page.command(f"{domain}.enable")
        await page.command("Page.setLifecycleEventsEnabled", enabled=True)
        if url != "about:blank":
            await page.goto(url)
        return page

    async def set_permission(self, origin: str, permission: str, setting: str) -> None:
        """Set a permission of an origin, for example `notifications`, to granted or denied."""
        await self.command(
            "Browser.setPermission",
            {
                "origin": origin,
                "permission": {"name": permission},
                "setting": setting,
                "browserContextId": self._context,
            },
        )

    async def close(self) -> None:
        """Let go of the browser."""
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        await self._socket.close()

    async def _read(self) -> None:
        async for text in self._socket:
            message = json.loads(text)
            if "id" not in message:
                key = (message["method"], message.get("sessionId"))
                for listener in self._listeners.get(key, ()):
                    listener(message["params"])
            elif (answer := self._waiting.get(message["id"])) and not answer.done():
                if error := message.get("error"):
                    answer.set_exception(ChromiumError(error["message"]))
                else:
                    answer.set_result(message["result"])
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ChromiumError("Chromium ended"))


@pytest.fixture
async def browser() -> AsyncIterator[Chromium]:
    """Chromium, as one that was started for this test alone."""
    async with connect(_debugging_url(), max_size=None, ping_interval=None, proxy=None) as socket:
        chromium = Chromium(socket)
        try:
            await chromium.begin()
            yield chromium
        finally:
            await chromium.close()


@functools.cache
def _debugging_url() -> str:
    """Where the run's Chromium takes commands."""
    program = find_chromium()
    profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
    process = start_kept(
        [program, *FLAGS, f"--user-data-dir={profile.name}", "about:blank"],
        end="kill -9 0",  # with its helpers
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )

    def end() -> None:
        end_kept(process)
        profile.cleanup()

    atexit.register(end)
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        _, mark, url = line.strip().partition("DevTools listening on ")
        if mark:
            threading.Thread(target=process.stderr.read, name="chromium", daemon=True).start()
            return str(url)
        said.append(line)
    raise ChromiumError("Chromium did not start:\n" + "".join(said[-10:]))
