"""What is sure before a week is over is told once: goals that are missed, and alerts."""

from datetime import date
from pathlib import Path

import pytest

from channelstats.sending.announcing import AnnounceResult
from channelstats.sending.mail import mail_server, mail_subscription
from channelstats.sending.push_sender import vapid_key
from channelstats.sending.warning import Warner, sure_lines
from channelstats.settings import load
from channelstats.stats import Period
from channelstats.views.goals import Measured, decided, figures, parse_bound
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
                "profile": "compat",
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
        warner = Warner(
            example.tables,
            settings,
            clock=ManualClock(NOW),
            mail_server=mail_server(settings, {"CHANNELSTATS_MAIL_PASSWORD": PASSWORD}),
        )
        lines = await sure_lines(example.tables, settings, WEEK)
        assert list(lines.values()) == [
            "Messages: 8 (goal: at most 5, not met)",
            "Messages: 8 (alert: more than 7)",
        ]
        assert await warner.warn(WEEK, lines) == AnnounceResult(notified=4)
        assert await warner.warn(WEEK, lines) == AnnounceResult(knew=4)
        assert [told["body"] for told in browser.got] == list(lines.values())
        assert [got["Subject"].partition(": ")[2] for got in server.got] == list(lines.values())
        assert len({got["Message-ID"] for got in server.got}) == 2
        server.refuse["RCPT"] = "550 no"
        following = Period(date(2024, 3, 17), 7, UTC)
        assert (await warner.warn(following, lines)).left == 2
        del server.refuse["RCPT"]
        assert await warner.warn(following, lines) == AnnounceResult(notified=2, knew=2)
