"""What a user is handed: the link with the token, as text, as a QR code and on a page of its own.

Rule: the page loads nothing and needs no network, and only its owner can read its file.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from io import StringIO
from typing import Final, TextIO

import segno

from autopush.settings import StartupError

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Push service for {name}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 0 auto; padding: 1rem;
  color: light-dark(#1b1b1f, #ececf1); background: light-dark(#fff, #17171c); }}
svg {{ display: block; width: min(100%, 17rem); height: auto; margin: 1rem 0; background: #fff; }}
code {{ overflow-wrap: anywhere; font-size: .95rem; padding: .1rem .25rem; border-radius: .25rem;
  background: light-dark(#eeeef3, #2a2a33); }}
dt {{ font-weight: 600; margin-top: .75rem; }} dd {{ margin: 0; }}
</style>
<h1>Push service for {name}</h1>
<p>This link is yours alone, and works like a password: whoever has it uses the service in your
name.{expiry}</p>
<p><code>{link}</code></p>
{code}
<dl>
<dt>Android, with Sunup</dt>
<dd>In its menu change the server, and enter the link. Then choose Sunup in your apps.</dd>
<dt>KDE</dt>
<dd>System Settings, <i>Push Notifications</i>, provider <i>Autopush</i>: enter the link.</dd>
<dt>Firefox on a computer</dt>
<dd>Open <code>about:config</code>, set <code>dom.push.serverURL</code> to
<code>{socket}</code> and restart Firefox.</dd>
</dl>
<p>If somebody else may have seen it, ask for a new one.</p>
</html>
"""


class Invitation:
    """`websocket_url`: that of the service, without a token. `expires`: a date, or ""."""

    def __init__(self, name: str, websocket_url: str, token: str, expires: str = "") -> None:
        self._name, self._expires = name, expires
        self._socket = f"{websocket_url.rstrip('/')}/{token}"
        self.link = "http" + self._socket.removeprefix("ws")
        """As distributors take it; they, not browsers, open it."""
        self._code = segno.make(self.link, error="m", micro=False)

    def print_on(self, terminal: TextIO) -> None:
        """The link, and its QR code."""
        drawn = StringIO()
        self._code.terminal(drawn, compact=True, border=2)
        terminal.write(f"{self.link}\n\n{drawn.getvalue()}")

    def page(self) -> str:
        return _PAGE.format(
            name=escape(self._name),
            link=escape(self.link),
            socket=escape(self._socket),
            expiry=f" It ends on {self._expires}." if self._expires else "",
            code=self.svg(),
        )

    def svg(self) -> str:
        """The QR code, for a page."""
        return self._code.svg_inline(scale=4, border=4, omitsize=True)


@contextmanager
def new_page(path: str) -> Iterator[TextIO]:
    """A file that only its owner can read; opened before there is a token, so that none is lost.
    If what writes it fails, there is none.

    :raises StartupError: it exists, or cannot be written
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise StartupError(f"--page: {path} exists: name a new file") from None
    except OSError as error:
        raise StartupError(f"--page: cannot write {path}: {error.strerror}") from None
    with open(descriptor, "w", encoding="utf-8") as file:
        try:
            yield file
        except BaseException:
            os.unlink(path)
            raise
