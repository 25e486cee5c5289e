"""Mail to those who want it: over TLS, once, and with one click to stop it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from channelstats.facts import Period
from channelstats.sending import mail
from channelstats.sending.announcing import Announcer, AnnounceResult
from channelstats.sending.delivery import Answer, Outcome
from channelstats.sending.mail import (
    Mail,
    MailSender,
    is_signed,
    logged_in,
    mail_server,
    mail_subscription,
    reason,
    stop_secret,
)
from channelstats.settings import SettingError, Settings, load
from channelstats.tables.subscriptions import Subscription, id_of
from support.channelstats.house import NOW, UTC, House
from support.channelstats.mail_server import PASSWORD, SmtpServer, smtp_server
from support.clocks import ManualClock

WEEK = Period(date(2024, 3, 10), 7, UTC)
MAIL = Mail("The week", "8 messages\n", "<html><body><p>8</p></body></html>", WEEK.start)
TO = mail_subscription("anna@example.org")
SECRET = {"CHANNELSTATS_MAIL_PASSWORD": PASSWORD}
TAKEN = Answer(Outcome.TAKEN)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SmtpServer]:
    async with smtp_server(tmp_path) as running:
        yield running


def settings_for(server: SmtpServer, folder: Path, **more: str) -> Settings:
    given = {
        "data": str(folder / "data"),
        "mail_server": server.url,
        "mail_from": "stats@example.com",
        "mail_ca_file": str(server.ca_file),
        "dashboard_url": "https://stats.example.com/",
    }
    return load(given | more, {})


def sender(server: SmtpServer, folder: Path, **more: str) -> MailSender:
    settings = settings_for(server, folder, **more)
    found = mail_server(settings, SECRET)
    assert found is not None
    assert PASSWORD not in repr(found)
    return MailSender(found, settings.folder, ManualClock(NOW))


async def test_a_mail_goes_over_tls_with_what_stops_it(server: SmtpServer, tmp_path: Path) -> None:
    assert await sender(server, tmp_path).send(TO, MAIL) == TAKEN
    [got], [is_encrypted] = server.got, server.encrypted
    assert is_encrypted
    assert server.commands.index("STARTTLS") < server.commands.index("AUTH")
    assert server.to == ["anna@example.org"]
    assert (got["From"], got["To"]) == ("stats@example.com", "anna@example.org")
    assert (got["Subject"], got["Auto-Submitted"]) == ("The week", "auto-generated")
    assert got["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    stop = got["List-Unsubscribe"].strip("<>")
    assert stop.startswith("https://stats.example.com/mail/stop?")
    asked = parse_qs(urlsplit(stop).query)
    secret = stop_secret(tmp_path / "data")
    assert asked["of"] == [id_of(TO.endpoint)]
    assert is_signed(asked["of"][0], asked["sign"][0], secret)
    assert not is_signed(id_of("mailto:bob@example.org"), asked["sign"][0], secret)
    text, html = (got.get_body((kind,)) for kind in ("plain", "html"))
    assert text is not None
    assert html is not None
    assert text.get_content().startswith("8 messages")
    assert stop in text.get_content()
    assert f"\r\nList-Unsubscribe: <{stop}>\r\n".encode() in server.raw[0]  # unfolded
    assert "No more mails</a>" in html.get_content()


async def test_a_mail_that_is_sent_again_has_the_same_id(
    server: SmtpServer, tmp_path: Path
) -> None:
    out = sender(server, tmp_path)
    for _ in range(2):
        await out.send(TO, MAIL)
    assert len({got["Message-ID"] for got in server.got}) == 1


async def test_tls_may_come_first(tmp_path: Path) -> None:
    async with smtp_server(tmp_path, is_tls=True) as server:
        assert await sender(server, tmp_path).send(TO, MAIL) == TAKEN
        assert "STARTTLS" not in server.commands


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted(
    server: SmtpServer, tmp_path: Path
) -> None:
    answer = await sender(server, tmp_path, mail_ca_file="").send(TO, MAIL)
    assert answer.outcome is Outcome.FAILED
    assert "AUTH" not in server.commands
    assert server.got == []


async def test_no_password_goes_in_the_clear(server: SmtpServer, tmp_path: Path) -> None:
    server.offers_tls = False
    assert (await sender(server, tmp_path).send(TO, MAIL)).outcome is not Outcome.TAKEN
    assert "AUTH" not in server.commands
    plain = f"smtp://127.0.0.1:{server.port}"  # on this machine, and without a login
    assert await sender(server, tmp_path, mail_server=plain).send(TO, MAIL) == TAKEN


async def test_elsewhere_a_server_has_to_have_tls(
    server: SmtpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "is_loopback", lambda _: False)
    server.offers_tls = False
    plain = f"smtp://127.0.0.1:{server.port}"
    answer = await sender(server, tmp_path, mail_server=plain).send(TO, MAIL)
    assert answer.outcome is not Outcome.TAKEN
    assert server.got == []


@pytest.mark.parametrize(
    ("command", "answer", "outcome"),
    [
        ("RCPT", "450 later", Outcome.BUSY),
        ("RCPT", "550 nobody", Outcome.FAILED),
        ("MAIL", "451 later", Outcome.BUSY),
        ("DATA", "554 no", Outcome.FAILED),
        ("AUTH", "535 no", Outcome.FAILED),
        ("AUTH", "454 later", Outcome.BUSY),
    ],
)
async def test_what_a_server_refuses(
    server: SmtpServer, tmp_path: Path, command: str, answer: str, outcome: Outcome
) -> None:
    server.refuse[command] = answer
    assert await sender(server, tmp_path).send(TO, MAIL) == Answer(outcome)
    assert server.got == []


async def test_a_server_that_is_silent_or_gone_is_busy(
    server: SmtpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "_TIMEOUT", 0.2)
    server.silent = True
    assert await sender(server, tmp_path).send(TO, MAIL) == Answer(Outcome.BUSY)
    gone = sender(server, tmp_path, mail_server="smtp://127.0.0.1:1")
    assert await gone.send(TO, MAIL) == Answer(Outcome.BUSY)


async def test_a_reason_tells_no_secret(server: SmtpServer, tmp_path: Path) -> None:
    server.refuse["AUTH"] = f"535 {PASSWORD} is wrong"
    found = mail_server(settings_for(server, tmp_path), SECRET)
    assert found is not None

    def log_in() -> str:
        with pytest.raises(OSError) as caught, logged_in(found):
            pass
        return reason(caught.value)

    assert await asyncio.to_thread(log_in) == "the server answered 535"


@pytest.mark.parametrize(
    "address", ["", "anna", "a@b@c", "a b@example.org", "a@example.org\nBcc: b@c", "ü@example.org"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="expected a mail address"):
        mail_subscription(address)


@pytest.mark.parametrize("missing", ["mail_from", "dashboard_url"])
async def test_what_mail_needs_is_named(server: SmtpServer, tmp_path: Path, missing: str) -> None:
    with pytest.raises(SettingError, match=missing):
        mail_server(settings_for(server, tmp_path, **{missing: ""}), SECRET)
    with pytest.raises(SettingError, match="CHANNELSTATS_MAIL_PASSWORD"):
        mail_server(settings_for(server, tmp_path), {})


# ── about a week ─────────────────────────────────────────────────────────────────────────────────


class Office:
    def __init__(self, house: House, settings: Settings) -> None:
        self.house, self.settings, self.clock = house, settings, ManualClock(NOW)
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)

    async def announce(self) -> AnnounceResult:
        announcer = Announcer(
            self.house.tables,
            self.settings,
            clock=self.clock,
            sleep=self.sleep,
            mail_server=mail_server(self.settings, SECRET),
        )
        return await announcer.announce(WEEK)

    async def stored(self) -> list[Subscription]:
        return await self.house.tables.subscriptions.all()


@pytest.fixture
async def office(example: House, server: SmtpServer, tmp_path: Path) -> Office:
    await example.tables.subscriptions.add(TO)
    goals = "volume.messages >= 100"
    return Office(example, settings_for(server, tmp_path, goals=goals))


async def test_a_week_is_mailed_once_with_its_goals(office: Office, server: SmtpServer) -> None:
    assert await office.announce() == AnnounceResult(notified=1)
    assert await office.announce() == AnnounceResult(knew=1)
    [got] = server.got
    body = got.get_body(("plain",))
    assert body is not None
    assert "3 people" in body.get_content()
    assert "Messages: 8 (goal: at least 100, not met)" in body.get_content()
    assert "10 to 16 March 2024" in got["Subject"]


async def test_a_server_that_is_busy_is_asked_again_and_left_for_later(
    office: Office, server: SmtpServer
) -> None:
    server.refuse["RCPT"] = "450 later"
    assert await office.announce() == AnnounceResult(left=1)
    assert len(office.slept) == 2
    del server.refuse["RCPT"]
    assert await office.announce() == AnnounceResult(notified=1)


async def test_an_address_stays_however_long_it_is_refused(
    office: Office, server: SmtpServer
) -> None:
    server.refuse["RCPT"] = "550 nobody"
    for _ in range(3):
        assert (await office.announce()).removed == 0
        office.clock.advance(40 * 86_400)
    assert len(await office.stored()) == 1


async def test_without_a_server_it_is_said(office: Office, server: SmtpServer) -> None:
    office.settings = load({"data": office.settings.data}, {})
    result = await office.announce()
    assert result == AnnounceResult(left=1, without_server=1)
    assert "mail_server is not set" in str(result)
    assert server.got == []
