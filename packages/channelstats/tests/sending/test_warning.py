"""What is sure before a week is over is told once: goals that are missed, and alerts."""

import asyncio
from datetime import date
from pathlib import Path

import pytest

from channelstats.facts import Period
from channelstats.pages.goals import Measured, decided, figures, parse_bound
from channelstats.sending.announcing import SHORTEST_PAUSE, Announcer, AnnounceResult, sure_lines
from channelstats.sending.mail import mail_server, mail_subscription
from channelstats.sending.push_sender import vapid_key
from channelstats.settings import load
from support.channelstats.house import NOW, UTC, House
from support.channelstats.mail_server import PASSWORD, smtp_server
from support.channelstats.push_service import PushService
from support.clocks import ManualClock

WEEK = Period(date(2024, 3, 10), 7, UTC)


@pytest.mark.parametrize(
    ("bound", "value", "is_alert", "expected"),
    [
        ("volume.messages <= 5", 6, False, True),
        ("volume.messages <= 5", 5, False, False),
        ("volume.messages < 5", 5, False, True),
        ("volume.messages >= 100", 6, False, False),  # the week goes on
        ("threads.unanswered <= 5", 6, False, False),  # they may be answered yet
        ("threads.unanswered_share <= 5", 6, False, False),
        ("volume.messages > 5", 6, True, True),
        ("volume.messages > 5", 5, True, False),
        ("volume.messages < 5", 4, True, False),
        ("volume.messages <= 5", None, False, False),
    ],
)
def test_what_is_sure_before_the_end(
    bound: str, value: float | None, is_alert: bool, expected: bool
) -> None:
    of, tile = parse_bound(bound), figures()[parse_bound(bound).figure]
    assert decided(Measured(of, tile.title, tile.kind, value), is_alert=is_alert) is expected


async def test_each_is_told_once_in_the_week(
    example: House, service: PushService, tmp_path: Path
) -> None:
    async with smtp_server(tmp_path) as server:
        settings = load(
            {
                "data": str(tmp_path / "data"),
                "goals": "volume.messages <= 5, volume.messages >= 100",
                "alerts": "volume.messages > 7, threads.unanswered > 0",
                "mail_server": server.url,
                "mail_from": "stats@example.com",
                "mail_ca_file": str(server.ca_file),
                "dashboard_url": "https://stats.example.com/",
            },
            {},
        )
        browser = service.browser()
        key = vapid_key(settings.folder).public
        subscriptions = example.tables.subscriptions
        await subscriptions.add(browser.subscription(announced="", vapid=key))
        await subscriptions.add(mail_subscription("anna@example.org"))
        clock = ManualClock(NOW)
        announcer = Announcer(
            example.tables,
            settings,
            clock=clock,
            mail_server=mail_server(settings, {"CHANNELSTATS_MAIL_PASSWORD": PASSWORD}),
        )
        lines = await sure_lines(example.tables, settings, WEEK)
        missed, alert = lines.values()
        assert (missed, alert) == (
            "Messages: 8 (goal: at most 5, not met)",
            "Messages: 8 (alert: more than 7)",
        )
        first = dict(list(lines.items())[:1])
        assert await announcer.warn(WEEK, first) == AnnounceResult(notified=2)
        assert await announcer.warn(WEEK, first) == AnnounceResult(knew=2)
        assert await announcer.warn(WEEK, lines) == AnnounceResult(notified=2)
        assert await announcer.warn(WEEK, lines) == AnnounceResult(knew=2)
        assert [told["body"] for told in browser.got] == [missed, alert]
        # What still waits at the push service is not replaced by what comes later.
        assert len({headers["Topic"] for headers in browser.headers}) == 2
        assert [got["Subject"].partition(": ")[2] for got in server.got] == [missed, alert]
        assert len({got["Message-ID"] for got in server.got}) == 2
        server.refuse["RCPT"] = "550 no"
        following = Period(date(2024, 3, 17), 7, UTC)
        assert await announcer.warn(following, lines) == AnnounceResult(notified=1, left=1)
        assert browser.got[-1]["body"] == f"{missed}\n{alert}"
        del server.refuse["RCPT"]
        assert await announcer.warn(following, lines) == AnnounceResult(knew=1, left=1)
        clock.advance(SHORTEST_PAUSE)
        assert await announcer.warn(following, lines) == AnnounceResult(notified=1, knew=1)
        assert server.got[-1]["Subject"] == f"Already sure this week: {missed} and 1 more"
        body = server.got[-1].get_body(("plain",))
        assert body is not None
        assert alert in body.get_content()


async def test_who_is_gone_is_removed_by_a_warning_too(
    example: House, service: PushService, tmp_path: Path
) -> None:
    settings = load({"data": str(tmp_path / "data"), "alerts": "volume.messages > 7"}, {})
    browser, subscriptions = service.browser(), example.tables.subscriptions
    key = vapid_key(settings.folder).public
    await subscriptions.add(browser.subscription(announced="", vapid=key))
    service.answers[browser.endpoint] = [410]
    announcer = Announcer(example.tables, settings, clock=ManualClock(NOW))
    assert await announcer.warn(WEEK, {"a": "Messages: 8"}) == AnnounceResult(removed=1)
    assert await subscriptions.all() == []


async def test_of_two_runs_at_once_one_warns(
    example: House, service: PushService, tmp_path: Path
) -> None:
    settings = load({"data": str(tmp_path / "data")}, {})
    browser, subscriptions = service.browser(), example.tables.subscriptions
    key = vapid_key(settings.folder).public
    await subscriptions.add(browser.subscription(announced="", vapid=key))
    announcer = Announcer(example.tables, settings, clock=ManualClock(NOW))
    runs = [announcer.warn(WEEK, {"a": "Messages: 8"}) for _ in range(3)]
    results = await asyncio.gather(*runs)
    assert sum(result.notified for result in results) == 1
    assert len(browser.got) == 1
