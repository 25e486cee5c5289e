"""The pages of the console over HTTP: who gets them, and what comes with every answer."""

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import pytest

from autopush.console.audit import AuditLog
from autopush.console.following import FollowedPushes
from autopush.console.handlers import Console
from autopush.console.lookup import LookUp
from autopush.console.overview import Overview, WorkerShare
from autopush.console.report import LoggedErrors, Report
from autopush.console.session import ACT, LOGIN_RATE, LOOK, ConsoleSessions, ConsoleTokens
from autopush.console.users import AccountPages
from autopush.net.client_limits import ConnectionLimits
from autopush.net.http_messages import Request, Response
from autopush.net.siblings import Siblings
from autopush.settings import Settings
from autopush.telemetry.metric_table import METRICS, NOTIFICATION_RECEIVED
from autopush.telemetry.metrics import SharedMetrics
from support.clocks import ManualClock

OWN = {"host": "127.0.0.1:8081", "origin": "http://127.0.0.1:8081"}


class Browser:
    """Asks the console of a service with one worker, and keeps its cookie."""

    def __init__(self, data: Path) -> None:
        clock = ManualClock()
        self.tokens, self.audit = ConsoleTokens(data), AuditLog(data, clock)
        self.metrics = SharedMetrics(METRICS, 1)
        settings = Settings(data=data)
        overview = Overview(
            self.metrics,
            settings,
            Siblings(),
            None,
            WorkerShare,
            lambda: None,
            None,
            clock,
            monotonic=clock,
        )
        sessions = ConsoleSessions(self.tokens, b"key", clock, clock)
        # Both need a store: the pages that use them are tested in a browser.
        look_up, accounts = cast(LookUp, None), cast(AccountPages, None)
        followed = cast(FollowedPushes, None)
        report, limits = Report(["true"], LoggedErrors()), ConnectionLimits()
        self.console = Console(
            sessions, overview, look_up, followed, accounts, report, self.audit, limits
        )
        self.cookie = ""

    async def ask(
        self, path: str, body: Mapping[str, str] | None = None, headers: Mapping[str, str] = OWN
    ) -> Response:
        method = "GET" if body is None else "POST"
        sent = {**headers, **({"cookie": self.cookie} if self.cookie else {})}
        text = urlencode(body or {}).encode()
        request = Request(method, f"/console{path}", "", sent, "192.0.2.1", body=text)
        answer = await self.console(request)
        assert isinstance(answer, Response)
        return answer

    async def log_in(self, role: str = ACT) -> Response:
        answer = await self.ask("/log-in", {"token": self.tokens.make(role)})
        self.cookie = dict(answer.headers)["Set-Cookie"].partition(";")[0]
        return answer


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    browser = Browser(tmp_path)
    yield browser
    browser.console.close()


def document(answer: Response) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)
    return found


async def test_without_a_log_in_there_is_nothing_but_the_form_and_its_looks(
    browser: Browser,
) -> None:
    browser.tokens.make(ACT)
    for path, status in (
        ("", 303),
        ("/", 303),
        ("/now.json", 401),
        ("/now.events", 401),
        ("/elsewhere", 401),
        ("/log-in", 200),
        ("/static/console.css", 200),
        ("/static/../session.py", 401),
    ):
        answer = await browser.ask(path)
        assert answer.status == status, path


async def test_who_has_logged_in_sees_the_pages_until_the_log_out(browser: Browser) -> None:
    answer = await browser.log_in()
    cookie = dict(answer.headers)["Set-Cookie"]
    assert (answer.status, dict(answer.headers)["Location"]) == (303, "/console/")
    assert "; HttpOnly; SameSite=Strict; Path=/console; Max-Age=" in cookie
    assert "Secure" not in cookie
    page = await browser.ask("/")
    assert b'data-role="act"' in page.body
    browser.metrics.of_worker(0).counter(NOTIFICATION_RECEIVED).add(7)
    assert document(await browser.ask("/now.json"))["counts"]["received"] == 7
    [line] = browser.audit.lines()
    assert (line["action"], line["by"]) == ("log-in", "console, act, 192.0.2.1")
    left = await browser.ask("/log-out", {})
    assert "Max-Age=0" in dict(left.headers)["Set-Cookie"]


async def test_over_https_the_cookie_is_never_sent_in_the_clear(browser: Browser) -> None:
    headers = {"host": "push.example", "origin": "https://push.example"}
    answer = await browser.ask("/log-in", {"token": browser.tokens.make(ACT)}, headers)
    assert dict(answer.headers)["Set-Cookie"].endswith("; Secure")


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "127.0.0.1:8081"},
        {"host": "127.0.0.1:8081", "origin": "null"},
        {"host": "127.0.0.1:8081", "origin": "http://127.0.0.1:8080"},
        {"host": "127.0.0.1:8081", "origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:8081"},
    ],
)
async def test_a_post_that_no_page_of_the_console_has_sent_is_refused(
    browser: Browser, headers: dict[str, str]
) -> None:
    answer = await browser.ask("/log-in", {"token": browser.tokens.make(ACT)}, headers)
    assert answer.status == 403
    assert "Set-Cookie" not in dict(answer.headers)
    await browser.log_in()
    assert (await browser.ask("/log-out", {}, headers)).status == 403


@pytest.mark.parametrize("header", ["", "Bearer "])
async def test_wrong_tokens_are_limited_and_right_ones_are_not_shown(
    browser: Browser, header: str
) -> None:
    token = browser.tokens.make(ACT)
    for number in range(LOGIN_RATE.count + 1):
        if header:
            answer = await browser.ask("/now.json", None, {"authorization": f"{header}x{number}"})
        else:
            answer = await browser.ask("/log-in", {"token": f"x{number}"})
    assert answer.status == 429
    answer = await browser.ask("/now.json", None, {"authorization": f"Bearer {token}"})
    assert answer.status == 200
    assert token not in answer.body.decode()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/drop-user.json", {"uaid": "0" * 32}),
        ("/delete-messages.json", {"uaid": "0" * 32}),
        ("/accounts-change.json", {"action": "revoke", "name": "ann"}),
    ],
)
async def test_who_may_only_look_changes_nothing_and_leaves_no_line(
    browser: Browser, path: str, body: dict[str, str]
) -> None:
    await browser.log_in(LOOK)
    before = [*browser.audit.lines()]
    answer = await browser.ask(path, body)
    assert (answer.status, document(answer)) == (403, {"error": "This token may only look"})
    assert [*browser.audit.lines()] == before
    assert (await browser.ask(path)).status == 405


async def test_every_answer_says_what_its_page_may_load_and_that_it_is_not_kept(
    browser: Browser,
) -> None:
    await browser.log_in()
    for path in ("/", "/log-in", "/now.json", "/static/now.js", "/elsewhere"):
        headers = dict((await browser.ask(path)).headers)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["Cache-Control"] == "no-store"


def test_the_pages_are_small() -> None:
    static = files("autopush.console") / "static"
    assert sum(len(file.read_bytes()) for file in static.iterdir()) < 100_000
