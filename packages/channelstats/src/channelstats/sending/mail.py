"""Sends the mail about a week by SMTP (RFC 5321, 6409), with one click to stop it (RFC 8058).

Rule: nothing leaves this machine in the clear: TLS from the first byte (`smtps://`), or STARTTLS,
which a server elsewhere has to have, with a certificate that is verified. A mail server on loopback
may do without, and then without a login.

Addresses are subscriptions like those of browsers (`mailto:` endpoints), and only the operator adds
one. The link to stop is signed with a secret of the data folder; nothing is stored for it.
"""

import asyncio
import hashlib
import hmac
import os
import re
import smtplib
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlencode, urlsplit

import msgspec

from channelstats.credentials import mail_password, read_or_create
from channelstats.settings import SettingError, Settings, is_loopback
from channelstats.tables.sending import MAILTO, Subscription, id_of
from keytables import Clock

STOP_PATH: Final = "mail/stop"
SECRET_FILE: Final = "mail.secret"  # noqa: S105 - the name of a file
_SECRET_BYTES: Final = 32

_PORTS: Final = {"smtp": 587, "smtps": 465}
_TIMEOUT: Final = 20.0
"""Seconds that the server has for each step."""
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@([A-Za-z0-9-]+\.)*[A-Za-z0-9-]+"
)
_LONGEST: Final = 254
_DIGITS: Final = 32
_POLICY: Final = SMTP.clone(max_line_length=900)
"""Shorter lines would cut the link in a header into encoded words, which no mail program joins."""


class MailServer(msgspec.Struct, frozen=True):
    """The operator's server with its login, and the sender. ``page`` is the dashboard's address."""

    host: str
    port: int
    is_tls: bool
    user: str
    password: str
    sender: str
    page: str
    ca_file: str = ""

    def __repr__(self) -> str:
        return f"<mail server {self.host}:{self.port}>"


def mail_server(settings: Settings, environment: Mapping[str, str]) -> MailServer | None:
    """The mail server that is set; None for none.

    :raises SettingError: something is missing beside it
    """
    if not settings.mail_server:
        return None
    for name in ("mail_from", "dashboard_url"):
        if not getattr(settings, name):
            why = "mail has to be from somebody" if name == "mail_from" else "mail links to it"
            raise SettingError(f"{name}: expected a value beside mail_server, as {why}")
    parts = urlsplit(settings.mail_server)
    user = unquote(parts.username or "")
    return MailServer(
        host=parts.hostname or "",
        port=parts.port or _PORTS[parts.scheme],
        is_tls=parts.scheme == "smtps",
        user=user,
        password=mail_password(settings, environment) if user else "",
        sender=settings.mail_from,
        page=settings.dashboard_url,
        ca_file=settings.mail_ca_file,
    )


@contextmanager
def logged_in(server: MailServer) -> Iterator[smtplib.SMTP]:
    """A session with the server, ready to send. It blocks.

    :raises OSError: there is none; of smtplib, all of whose errors are
    """
    context = ssl.create_default_context(cafile=server.ca_file or None)
    name = socket.gethostname() or "localhost"
    made: smtplib.SMTP
    if server.is_tls:
        made = smtplib.SMTP_SSL(server.host, server.port, name, timeout=_TIMEOUT, context=context)
    else:
        made = smtplib.SMTP(server.host, server.port, name, timeout=_TIMEOUT)
    with made as session:
        session.ehlo()
        if not server.is_tls and (session.has_extn("starttls") or not is_loopback(server.host)):
            session.starttls(context=context)
            session.ehlo()
        if server.user:
            if not isinstance(session.sock, ssl.SSLSocket):
                raise smtplib.SMTPNotSupportedError("a login needs TLS, which it does not offer")
            session.login(server.user, server.password)
        yield session


def reason(error: OSError) -> str:
    """What went wrong, in a line without what was sent."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"the server answered {error.smtp_code}"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "the server refused the recipient"
    return str(error.strerror or error)[:200]


# ── one mail ─────────────────────────────────────────────────────────────────────────────────────


class Mail(msgspec.Struct, frozen=True):
    """What is said of a week; the links to stop come with each recipient."""

    subject: str
    text: str
    html: str
    week: date


class MailSender:
    """Sends to many, one after the other."""

    def __init__(self, server: MailServer, folder: Path, clock: Clock) -> None:
        self._server, self._clock = server, clock
        self._secret = stop_secret(folder)

    async def send(self, to: Subscription, mail: Mail) -> None:
        """Send once.

        :raises OSError: it was not taken, see `reason`
        """
        message = self._message(to, mail)

        def hand_over() -> None:
            with logged_in(self._server) as session:
                session.send_message(message)

        await asyncio.to_thread(hand_over)

    def _message(self, to: Subscription, mail: Mail) -> EmailMessage:
        server, key = self._server, id_of(to.endpoint)
        stop = stop_url(server.page, key, self._secret)
        message = EmailMessage(_POLICY)
        message["Subject"], message["From"], message["To"] = mail.subject, server.sender, to.address
        message["Date"] = formatdate(self._clock())
        # The same at each attempt: what comes twice, as an answer was lost, can be told.
        about = hashlib.sha256(f"{mail.week} {mail.subject} {key}".encode()).hexdigest()[:_DIGITS]
        message["Message-ID"] = f"<{about}@{server.sender.rpartition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"
        message["List-Unsubscribe"] = f"<{stop}>"
        if stop.startswith("https:"):
            message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
        message.set_content(f"{mail.text}\nThe dashboard: {server.page}\nNo more mails: {stop}\n")
        link = f'<p><a href="{stop.replace("&", "&amp;")}">No more mails</a></p>'
        message.add_alternative(mail.html.replace("</body>", f"{link}</body>"), subtype="html")
        return message


# ── addresses, and how they are no longer ───────────────────────────────────────────────────────


def mail_subscription(address: str) -> Subscription:
    """:raises ValueError: it is no address; says what was expected"""
    if len(address) > _LONGEST or not _ADDRESS.fullmatch(address):
        raise ValueError("expected a mail address, as in name@example.org")
    return Subscription(f"{MAILTO}{address}", "", "")


def stop_secret(folder: Path) -> bytes:
    return read_or_create(folder / SECRET_FILE, lambda: os.urandom(_SECRET_BYTES))


def stop_url(page: str, key: str, secret: bytes) -> str:
    """The address that ends the subscription with that ID."""
    return f"{page}{STOP_PATH}?{urlencode({'of': key, 'sign': _signature(key, secret)})}"


def is_signed(key: str, signature: str, secret: bytes) -> bool:
    return hmac.compare_digest(_signature(key, secret).encode(), signature.encode())


def _signature(key: str, secret: bytes) -> str:
    return hmac.digest(secret, f"stop {key}".encode(), "sha256").hex()[:_DIGITS]
