"""Mail to those who want it: over TLS, once, and with one click to stop it."""

from datetime import date
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from channelstats.sending import mail
from channelstats.sending.mail import (
    Mail,
    MailSender,
    is_signed,
    mail_server,
    mail_subscription,
    reason,
    stop_secret,
)
from channelstats.settings import SettingError, Settings, load
from channelstats.tables.sending import id_of
from support.channelstats.house import NOW
from support.channelstats.mail_server import PASSWORD, SmtpServer, smtp_server, smtp_settings
from support.clocks import ManualClock

MAIL = Mail("The week", "8 messages\n", "<html><body><p>8</p></body></html>", date(2024, 3, 10))
TO = mail_subscription("anna@example.org")
SECRET = {"CHANNELSTATS_MAIL_PASSWORD": PASSWORD}


def settings_for(server: SmtpServer, folder: Path, **more: str) -> Settings:
    return load(smtp_settings(server, folder / "data") | more, {})


def sender(server: SmtpServer, folder: Path, **more: str) -> MailSender:
    settings = settings_for(server, folder, **more)
    configured = mail_server(settings, SECRET)
    assert configured is not None
    assert PASSWORD not in repr(configured)
    return MailSender(configured, settings.folder, ManualClock(NOW))


async def refusal(sent: MailSender) -> str:
    """Why a mail is not taken."""
    with pytest.raises(OSError) as caught:
        await sent.send(TO, MAIL)
    return reason(caught.value)


async def test_a_mail_goes_over_tls_with_what_stops_it(server: SmtpServer, tmp_path: Path) -> None:
    for _ in range(2):
        await sender(server, tmp_path).send(TO, MAIL)
    (got, again), (is_encrypted, _) = server.got, server.encrypted
    assert got["Message-ID"] == again["Message-ID"]
    assert is_encrypted
    assert server.commands.index("STARTTLS") < server.commands.index("AUTH")
    assert server.to[0] == "anna@example.org"
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


async def test_tls_may_come_first(tmp_path: Path) -> None:
    async with smtp_server(tmp_path, is_tls=True) as server:
        await sender(server, tmp_path).send(TO, MAIL)
        assert "STARTTLS" not in server.commands


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted(
    server: SmtpServer, tmp_path: Path
) -> None:
    assert "CERTIFICATE" in await refusal(sender(server, tmp_path, mail_ca_file=""))
    assert "AUTH" not in server.commands
    assert server.got == []


async def test_no_password_goes_in_the_clear(server: SmtpServer, tmp_path: Path) -> None:
    server.offers_tls = False
    assert "a login needs TLS" in await refusal(sender(server, tmp_path))
    assert "AUTH" not in server.commands
    plain = f"smtp://127.0.0.1:{server.port}"  # on this machine, and without a login
    await sender(server, tmp_path, mail_server=plain).send(TO, MAIL)


async def test_elsewhere_a_server_has_to_have_tls(
    server: SmtpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "is_loopback", lambda _: False)
    server.offers_tls = False
    plain = f"smtp://127.0.0.1:{server.port}"
    assert "STARTTLS" in await refusal(sender(server, tmp_path, mail_server=plain))
    assert server.got == []


@pytest.mark.parametrize(
    ("command", "answer", "why"),
    [
        ("RCPT", "450 later", "the server refused the recipient"),
        ("DATA", "554 no", "the server answered 554"),
        ("AUTH", f"535 {PASSWORD} is wrong", "the server answered 535"),
    ],
)
async def test_what_a_server_refuses_is_told_without_a_secret(
    server: SmtpServer, tmp_path: Path, command: str, answer: str, why: str
) -> None:
    server.refuse[command] = answer
    assert await refusal(sender(server, tmp_path)) == why
    assert server.got == []


async def test_a_server_that_is_silent_or_gone_is_not_waited_for(
    server: SmtpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "_TIMEOUT", 0.2)
    server.silent = True
    assert "timed out" in await refusal(sender(server, tmp_path))
    gone = sender(server, tmp_path, mail_server="smtp://127.0.0.1:1")
    assert await refusal(gone) == "Connection refused"


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
