"""A visitor of the dashboard is notified of a new weekly report, through our own push service.

`channelstats serve`, `autopush serve` and Firefox are real processes. Firefox's notifications are
windows of its own, which are read and clicked; a user agent in Python shows what goes over the
wire.
"""

import base64
import json
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.channelstats.house import EXAMPLE
from support.channelstats.process import Dashboard, Folder
from support.channelstats.push_service import Browser
from support.channelstats.workspace import Workspace, write_zip
from support.firefox import Firefox, find_firefox
from support.marionette import Marionette
from support.service import Service, running_service

pytestmark = pytest.mark.timeout(300)

SUBSCRIPTIONS = "notifications/subscriptions"
DAY = 86_400
SECOND_WEEK = "10 to 16 March 2024: 8 messages (+60%) by 3 people in 2 channels"


def more(path: Path, *days: int) -> Path:
    """An export with a message on each of these days of March 2024."""
    said = [
        {"type": "message", "user": "UBOB", "text": "a b", "ts": f"{1709251200 + day * DAY}.000100"}
        for day in days
    ]
    members = {"id": "CDEV", "name": "dev", "members": ["UBOB"]}
    users = [{"id": "UBOB", "name": "bob"}]
    return write_zip(
        Workspace(users=users, channels=[members], messages={"CDEV": said}).files(), path
    )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Dashboard]:
    """A dashboard of the worked example: its first week is there, its second is not at its end."""
    folder = Folder(tmp_path / "stats")
    folder.run("import-export", str(EXAMPLE), "--until", "2024-03-15")
    with Dashboard(folder) as running:
        yield running


def brings_the_second_week(site: Dashboard) -> None:
    site.folder.run("import-export", str(more(site.folder.path.with_name("2.zip"), 17)))


# ── any user agent ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    """Our own push service."""
    with (
        tempfile.TemporaryDirectory(prefix="autopush-") as folder,
        running_service(Path(folder) / "data") as service,
    ):
        yield service


def asked(site: Dashboard, method: str, path: str, document: object = None) -> Any:
    """What the dashboard answers to one of its pages."""
    request = urllib.request.Request(
        site.url + path,
        method=method,
        data=None if document is None else json.dumps(document).encode(),
        headers={"Content-Type": "application/json", "Origin": site.url.rstrip("/")},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def text_at(url: str) -> str:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=60) as page:
        return str(page.read().decode())


async def test_what_goes_through_autopush_is_signed_encrypted_and_sent_once(
    site: Dashboard, running: Service
) -> None:
    agent = await running.connect()
    try:
        channel, endpoint = await agent.register(key=asked(site, "GET", "notifications/key")["key"])
        browser = Browser(endpoint)
        assert asked(site, "POST", SUBSCRIPTIONS, browser.json) == {"subscribed": True}
        assert "1 subscribed after it was over" in site.folder.run(
            "notify"
        )  # of the week that was there

        brings_the_second_week(site)
        assert "1 subscriber would be notified" in site.folder.run("notify", "--dry-run")
        assert "1 subscriber notified" in site.folder.run("notify")
        notification = await agent.notification()
        assert notification["channelID"] == channel
        data = notification["data"]
        assert browser.decrypted(base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))) == {
            "title": "A new weekly report is ready",
            "body": SECOND_WEEK,
            "url": "/report?from=2024-03-10&to=2024-03-16",
        }
        await agent.ack([notification])
        assert "1 subscribed after it was over" in site.folder.run("notify")

        await agent.unregister(channel)
        site.folder.run("import-export", str(more(site.folder.path.with_name("3.zip"), 17, 24)))
        assert "1 unsubscribed" in site.folder.run("notify")
        assert "0 subscribers notified\n" in site.folder.run("notify")
        await agent.silence()
    finally:
        await agent.close()


# ── Firefox ──────────────────────────────────────────────────────────────────────────────────────


class Visitor:
    """A Firefox that uses our push service, and a tab in it."""

    def __init__(self, firefox: Firefox, tab: Marionette) -> None:
        self.firefox, self.tab = firefox, tab

    def visit(self, site: Dashboard) -> None:
        """Open the dashboard, and wait until its panel knows whether this browser subscribed."""
        self.tab.goto(site.url)
        self.tab.until(f"{PANEL}.getAttribute('aria-busy') === 'false' && {PANEL}.dataset.state")

    def press(self, button: str, state: str) -> None:
        self.tab.click(f"#notify-{button}")
        self.until(state)

    def until(self, state: str) -> None:
        try:
            self.tab.until(
                f"{PANEL}.getAttribute('aria-busy') === 'false' && {PANEL}.dataset.state !== 'busy'"
            )
        finally:
            found = self.state
        assert found[0] == state, found

    @property
    def state(self) -> tuple[str, str]:
        """The state of the panel, and its words."""
        state, words = self.tab.evaluate(f"[{PANEL}.dataset.state, {STATUS}.textContent]")
        return state, words

    def in_browser(self, expression: str) -> Any:
        """The value of an expression in the browser's own window, not in the page."""
        self.tab.command("Marionette:SetContext", value="chrome")
        try:
            return self.tab.evaluate(expression)
        finally:
            self.tab.command("Marionette:SetContext", value="content")

    def shown_notification(self) -> list[str]:
        """Title and text of the notification, as soon as it is shown."""
        found = self.in_browser(f"await {ALERT}.then((alert) => [{TITLE_OF}, {TEXT_OF}])")
        assert isinstance(found, list)
        return found

    def click_notification(self) -> str:
        """Click it; return the address of the page that opens."""
        return str(self.in_browser(CLICKED))


PANEL = "document.querySelector('#notify')"
STATUS = "document.querySelector('#notify [role=status]')"
TITLE_OF = "alert.document.getElementById('alertTitleLabel').value"
TEXT_OF = "alert.document.getElementById('alertTextLabel').textContent"
ALERT = """new Promise((done) => {
  const isAlert = (window) => window.location.href.endsWith("/alert.xhtml");
  const isLoaded = (window) => window.document.readyState === "complete";
  const look = () => {
    const windows = [...Services.wm.getEnumerator(null)];
    const alert = windows.find((window) => isAlert(window) && isLoaded(window));
    if (!alert) return windows;
    Services.ww.unregisterNotification(opened);
    done(alert);
    return [];
  };
  const watch = (window) => window.addEventListener("load", () => setTimeout(look));
  const opened = (window, topic) => topic === "domwindowopened" && watch(window);
  Services.ww.registerNotification(opened);
  look().filter((window) => !isLoaded(window) || window.location.href === "about:blank").map(watch);
})"""
CLICKED = f"""await {ALERT}.then((alert) => new Promise((done) => {{
  const {{ gBrowser }} = Services.wm.getMostRecentWindow("navigator:browser");
  const listener = {{
    onLocationChange(browser, progress, request, location) {{
      if (location.spec === "about:blank") return;
      gBrowser.removeTabsProgressListener(listener);
      done(location.spec);
    }},
  }};
  gBrowser.addTabsProgressListener(listener);
  alert.onAlertClick();
}}))"""


@pytest.fixture(scope="module")
def visitor(running: Service) -> Iterator[Visitor]:
    find_firefox()
    with Firefox(running.websocket) as firefox:
        firefox.start(remote=True)
        with Marionette(firefox.profile) as tab:
            yield Visitor(firefox, tab)


@pytest.mark.browser
def test_a_subscriber_is_notified_once_and_a_click_opens_the_report(
    visitor: Visitor, site: Dashboard
) -> None:
    visitor.in_browser(PERMISSION % (site.url, "DENY_ACTION"))
    visitor.visit(site)
    state, words = visitor.state
    assert (state, words[:40]) == ("failed", "Notifications are blocked for this page.")
    visitor.in_browser(PERMISSION % (site.url, "ALLOW_ACTION"))
    visitor.press("subscribe", "subscribed")
    assert visitor.state[1].startswith("Subscribed: ")
    assert "1 subscribed after it was over" in site.folder.run("notify")

    brings_the_second_week(site)
    assert "1 subscriber notified" in site.folder.run("notify")
    assert visitor.shown_notification() == ["A new weekly report is ready", SECOND_WEEK]
    report = visitor.click_notification()
    assert report == f"{site.url}report?from=2024-03-10&to=2024-03-16"
    assert "10 March 2024 to Saturday 16 March 2024" in text_at(report)
    assert "1 subscribed after it was over" in site.folder.run("notify")

    visitor.visit(site)
    assert visitor.state == ("subscribed", "This browser gets notifications.")
    visitor.press("unsubscribe", "unsubscribed")
    assert "0 subscribers notified\n" in site.folder.run("notify")
    visitor.visit(site)
    assert visitor.state == ("unsubscribed", "")


@pytest.mark.slow
@pytest.mark.browser
def test_a_subscription_whose_key_or_push_service_is_new_is_renewed_by_itself(
    visitor: Visitor, site: Dashboard, running: Service
) -> None:
    visitor.visit(site)
    visitor.press("subscribe", "subscribed")
    (site.folder.path / "vapid.pem").unlink()
    site.stop()
    site.start()
    visitor.visit(site)
    visitor.until("subscribed")

    visitor.tab.evaluate(RENEWED)
    hellos = len(visitor.firefox.uaids)
    running.end()
    running.data = running.data.with_name("fresh")
    running.launch()
    visitor.firefox.wait_for_hello(hellos + 1)
    assert visitor.tab.evaluate("await window.renewed") == "subscription renewed"

    brings_the_second_week(site)
    site.stop()
    site.start()  # which announces by itself
    assert visitor.shown_notification() == ["A new weekly report is ready", SECOND_WEEK]
    visitor.click_notification()
    # It may be shown before the dashboard has noted that: "another run is notifying" then.
    assert "0 subscribers notified" in site.folder.run("notify")


RENEWED = """(window.renewed = new Promise((done) =>
  navigator.serviceWorker.addEventListener("message", ({ data }) => done(data))), null)"""
PERMISSION = """Services.perms.addFromPrincipal(
  Services.scriptSecurityManager.createContentPrincipalFromOrigin("%s".replace(/\\/$/, "")),
  "desktop-notification", Services.perms.%s)"""
