"""Headless Firefox for tests, pointed at a push service on this machine.

    with Firefox("ws://127.0.0.1:8080/") as firefox:
        firefox.start()
        subscription = firefox.subscribe()
        ...
        assert firefox.receive(subscription) == [b"Hello"]

A page and its service worker drive it (`support.firefox_page`). What it sends to the push service
and receives from it is read from its own log.

Every wait is for an event and has a time limit, after which it raises an error that names the
event. Nothing leaves the machine.
"""

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from support.firefox_page import ControlServer, PushEvent
from support.marionette import Marionette
from support.tools import need

INSTALL = "apt-get install --no-install-recommends firefox-esr"
TIMEOUT = 60.0
"""Seconds for any one wait; a busy machine needs some of them."""

Message = dict[str, Any]

SENT = re.compile(r'PushServiceWebSocket: "wsSendMessage: Sending message" (".*")$')
RECEIVED = re.compile(r'PushServiceWebSocket: "wsOnMessageAvailable\(\)" (".*")$')


def preferences(push_url: str, proxy_port: int) -> dict[str, str | int | bool]:
    """What makes a Firefox use that push service, quickly, and nothing else."""
    return {
        "dom.push.serverURL": push_url,
        "dom.push.testing.allowInsecureServerURL": True,  # ws://
        "dom.push.connection.enabled": True,
        "dom.push.maxQuotaPerSubscription": 1_000_000,  # pushes without a notification shown
        "dom.push.retryBaseInterval": 300,  # ms instead of 5 s, doubled at each attempt
        "network.websocket.delay-failed-reconnects": False,
        "network.manage-offline-status": False,
        "permissions.default.desktop-notification": 1,  # allowed, without a question
        "alerts.useSystemBackend": False,  # there is no desktop to show them
        # Its log on standard output.
        "dom.push.loglevel": "Debug",
        "devtools.console.stdout.chrome": True,
        # Loopback is never proxied; all else ends at the control server.
        "network.proxy.type": 1,
        "network.proxy.http": "127.0.0.1",
        "network.proxy.http_port": proxy_port,
        "network.proxy.ssl": "127.0.0.1",
        "network.proxy.ssl_port": proxy_port,
        "network.captive-portal-service.enabled": False,
        "network.connectivity-service.enabled": False,
        "browser.region.network.url": "",
        "services.settings.server": "data:,#remote-settings-dummy/v1",
        "browser.newtabpage.enabled": False,
        "browser.safebrowsing.malware.enabled": False,
        "browser.safebrowsing.phishing.enabled": False,
        "browser.search.update": False,
        "app.normandy.enabled": False,
        "app.update.enabled": False,
        "extensions.update.enabled": False,
        "extensions.systemAddon.update.enabled": False,
        "datareporting.policy.dataSubmissionEnabled": False,
        "toolkit.telemetry.enabled": False,
        "toolkit.telemetry.server": "",
        # One plain window, whatever happened before.
        "browser.aboutwelcome.enabled": False,
        "browser.shell.checkDefaultBrowser": False,
        "browser.startup.page": 0,
        "browser.startup.homepage_override.mstone": "ignore",
        "browser.sessionstore.resume_from_crash": False,
        "toolkit.startup.max_resumed_crashes": -1,
        "dom.allow_scripts_to_close_windows": True,
        "browser.tabs.warnOnClose": False,
        # For a start with `remote`: no preferences of its own, any port.
        "remote.prefs.recommended": False,
        "marionette.port": 0,
    }


@dataclass(frozen=True)
class Subscription:
    """What `PushSubscription.toJSON()` gave, and the scope of its service worker."""

    scope: str
    info: dict[str, Any]

    @property
    def endpoint(self) -> str:
        return str(self.info["endpoint"])


def find_firefox() -> str:
    """The path of Firefox; without one the test is skipped, and fails where CI is `true`."""
    return need("firefox-esr", INSTALL)


class Firefox:
    """One profile, started and ended any number of times.

    `authority`: PEM file of a CA that it is to trust, for a push service with a certificate by it.
    """

    def __init__(self, push_url: str, authority: Path | None = None) -> None:
        self._authority = authority
        self._program = find_firefox()
        self._control = ControlServer()
        self._changed = self._control.changed
        self._folder = tempfile.TemporaryDirectory(prefix="firefox-", ignore_cleanup_errors=True)
        self.profile = Path(self._folder.name) / "profile"
        self.profile.mkdir()
        self._scopes = itertools.count(1)
        self._taken: dict[str, int] = {}
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._log: list[str] = []
        self.has_page = False
        """Whether it runs with its page open, for `run` and what stands on that."""
        self.sent: list[Message] = []
        """What it sent to the push service, over all its runs."""
        self.received: list[Message] = []
        """What the push service sent to it, over all its runs."""
        lines = [
            f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
            for name, value in preferences(push_url, self._control.port).items()
        ]
        (self.profile / "user.js").write_text("".join(lines))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._control.close()
        self._folder.cleanup()

    # ── running ──────────────────────────────────────────────────────────────────────────────────

    def start(self, *, page: bool = True, remote: bool = False) -> None:
        """Start, and wait until it got its hello reply. Only then can anything subscribe.

        Without `page` no tab is open; the profile's service workers get their pushes all the same.
        With `remote`, `support.marionette` can drive it beside the page.
        """
        assert self._process is None
        hellos = len(self.uaids)
        url = self._control.new_run()
        remote = remote or self._authority is not None
        (self.profile / "MarionetteActivePort").unlink(missing_ok=True)
        home = self._folder.name
        environment = {
            **{name: value for name, value in os.environ.items() if name != "DISPLAY"},
            "HOME": home,
            "XDG_CACHE_HOME": home,
            "XDG_CONFIG_HOME": home,
            "MOZ_DISABLE_NONLOCAL_CONNECTIONS": "1",
            "MOZ_CRASHREPORTER_DISABLE": "1",
        }
        self._process = subprocess.Popen(
            [
                *(self._program, "--headless", "--no-remote", "--profile", str(self.profile)),
                *(["--marionette", "--remote-allow-system-access"] if remote else []),
                url if page else "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,))
        self._reader.start()
        self.has_page = page
        if self._authority is not None:
            # It keeps trying to reach the push service meanwhile.
            with Marionette(self.profile, TIMEOUT) as control:
                control.trust(self._authority)
            self._authority = None
        self.wait_for_hello(hellos + 1)

    def stop(self) -> None:
        """Close its window, as its user would, and wait for the end. The page must be open."""
        assert self._process is not None
        self._control.ask("window.close()")
        try:
            self._process.wait(TIMEOUT)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it without warning, with all its helper processes."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._reader is not None
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        self.has_page = False

    # ── what it and the push service say ─────────────────────────────────────────────────────────

    @property
    def uaids(self) -> list[str]:
        """The UAIDs of the hello replies it got, one for each connection."""
        return [m["uaid"] for m in self.received if m["messageType"] == "hello"]

    def wait_for_hello(self, count: int) -> str:
        """Wait for that many hello replies over all its runs; returns the last UAID."""
        self.wait(lambda: len(self.uaids) >= count, f"hello reply number {count}")
        return self.uaids[-1]

    def heard(self, message_type: str) -> int:
        """How many messages of a type it was sent."""
        return sum(m["messageType"] == message_type for m in self.received)

    @property
    def notifications(self) -> list[Message]:
        """Every notification it was sent, in order, repeated ones too."""
        return [m for m in self.received if m["messageType"] == "notification"]

    @property
    def acks(self) -> dict[str, int]:
        """The code with which it acknowledged each version."""
        return {
            update["version"]: update["code"]
            for message in self.sent
            if message.get("messageType") == "ack"
            for update in message["updates"]
        }

    # ── what its page does ───────────────────────────────────────────────────────────────────────

    def run(self, script: str) -> Any:
        """The value that the body of an asynchronous JavaScript function returns in the page.

        :raises AssertionError: it threw, or did not end in time
        """
        number = self._control.ask(script)
        self.wait(lambda: self._control.outcome(number) is not None, f"the end of: {script}")
        outcome = self._control.outcome(number)
        assert outcome is not None
        assert "error" not in outcome, f"{outcome['error']} in: {script}"
        return outcome["value"]

    def subscribe(self, key: str | None = None) -> Subscription:
        """A new subscription; `key` is an application server key as base64url."""
        scope = f"/{next(self._scopes)}/"
        options = {"userVisibleOnly": True, **({"applicationServerKey": key} if key else {})}
        info = self.run(f"return subscribe({json.dumps(scope)}, {json.dumps(options)})")
        return Subscription(scope, info)

    def unsubscribe(self, subscription: Subscription) -> bool:
        scope = json.dumps(subscription.scope)
        return bool(self.run(f"return (await subscriptionOf({scope})).unsubscribe()"))

    def endpoint_of(self, subscription: Subscription) -> str | None:
        """The endpoint that the browser has for it now."""
        scope = json.dumps(subscription.scope)
        endpoint = self.run(f"return (await subscriptionOf({scope}))?.endpoint")
        return None if endpoint is None else str(endpoint)

    # ── what its service workers get ─────────────────────────────────────────────────────────────

    def events(self, subscription: Subscription) -> list[PushEvent]:
        """All so far, in the order of their worker."""
        with self._changed:
            return sorted(e for e in self._control.events if e.scope == subscription.scope)

    def receive(self, subscription: Subscription, count: int = 1) -> list[bytes | None]:
        """Wait for so many push events that were not yet given out; None for an empty push."""
        first = self._taken.get(subscription.scope, 0)
        last = self._taken[subscription.scope] = first + count
        self.wait(
            lambda: len(self.events(subscription)) >= last,
            f"push event number {last} of {subscription.scope}",
        )
        got = self.events(subscription)[first:last]
        assert all(event.kind in ("data", "empty") for event in got), got
        return [event.body if event.kind == "data" else None for event in got]

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Wait until a condition on what is known here is true.

        :raises AssertionError: it did not come true in time, or Firefox ended
        """
        with self._changed:
            came = self._changed.wait_for(lambda: condition() or self._has_ended(), TIMEOUT)
            if condition():
                return
        why = f"Firefox ended without {what}" if came else f"not within {TIMEOUT:.0f} s: {what}"
        raise AssertionError("\n".join([why, "Its last words:", *self._log[-15:]]))

    def _has_ended(self) -> bool:
        return self._reader is None or not self._reader.is_alive()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            text = line.rstrip()
            with self._changed:
                self._log.append(text[:500])
                for pattern, messages in ((SENT, self.sent), (RECEIVED, self.received)):
                    if found := pattern.search(text):
                        with contextlib.suppress(ValueError):  # two processes wrote at once
                            message = json.loads(json.loads(found[1]))
                            messages.append({"messageType": "ping", **message})
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
