"""A mail server on loopback that speaks SMTP (RFC 5321) with STARTTLS and AUTH, and keeps what it
is handed.
"""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path

from support.certificates import LOOPBACK, Authority
from support.stream_server import stream_server

USER, PASSWORD = "digest", "a password of no other place"


@dataclass
class SmtpServer:
    """``refuse`` has the answer to a command in place of the usual one, by its first word; with
    ``silent`` there is none to anything.
    """

    ca_file: Path
    context: ssl.SSLContext
    is_tls: bool = False
    offers_tls: bool = True
    silent: bool = False
    refuse: dict[str, str] = field(default_factory=dict)
    got: list[EmailMessage] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    to: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"smtp{'s' if self.is_tls else ''}://{USER}@{LOOPBACK}:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_encrypted = self.is_tls

        async def say(text: str) -> None:
            if not self.silent:
                writer.write(f"{text}\r\n".encode())
                await writer.drain()

        await say("220 mail ready")
        while line := await reader.readline():
            text = line.decode().strip()
            word = text.split(":")[0].split(" ")[0].upper()
            self.commands.append(word)
            if word in self.refuse:
                await say(self.refuse[word])
            elif word == "EHLO":
                offered = ["AUTH PLAIN", "8BITMIME"]
                offered += ["STARTTLS"] if self.offers_tls and not is_encrypted else []
                lines = [f"250-{name}\r\n" for name in ("mail", *offered)]
                await say(f"{''.join(lines)}250 SMTPUTF8")
            elif word == "STARTTLS":
                await say("220 go on")
                await writer.start_tls(self.context)
                is_encrypted = True
            elif word == "AUTH":
                known = base64.b64decode(text.split(" ")[2]).decode() == f"\0{USER}\0{PASSWORD}"
                await say("235 welcome" if known else "535 no")
            elif word == "RCPT":
                self.to.append(text.partition("<")[2].rstrip(">"))
                await say("250 fine")
            elif word == "DATA":
                await say("354 go on")
                data = await reader.readuntil(b"\r\n.\r\n")
                self.raw.append(data)
                self.encrypted.append(is_encrypted)
                parsed = BytesParser(policy=policy.default).parsebytes(data[:-3])
                assert isinstance(parsed, EmailMessage)
                self.got.append(parsed)
                await say("250 taken")
            elif word == "QUIT":
                await say("221 bye")
                return
            else:
                await say("250 fine")


@asynccontextmanager
async def smtp_server(folder: Path, *, is_tls: bool = False) -> AsyncIterator[SmtpServer]:
    authority = Authority(folder)
    files = authority.issue(folder, LOOPBACK)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    found = SmtpServer(authority.path, context, is_tls)
    tls = context if is_tls else None
    async with stream_server(found.serve, tls=tls) as (_, found.port):
        yield found


def smtp_settings(server: SmtpServer, data: Path) -> dict[str, str]:
    """Settings that hand mail to that server."""
    return {
        "data": str(data),
        "mail_server": server.url,
        "mail_from": "stats@example.com",
        "mail_ca_file": str(server.ca_file),
        "dashboard_url": "https://stats.example.com/",
    }
