"""Who may see the console, and who may act: tokens, and the cookies that stand for them.

    look    sees every page
    act     also changes what they show

A token is shown when it is made; the data folder keeps its SHA-256. A cookie names its role and its
end, with a MAC over both and over the token's hash, so it outlives a restart of the service, and
another token of the role ends it.
"""

import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Final

from autopush.clock import Clock
from autopush.keys import write_private
from autopush.limits import TokenBuckets
from autopush.settings.value_types import Rate
from autopush.webpush.identifiers import hash_secret, new_secret

LOOK: Final = "look"
ACT: Final = "act"
ROLES: Final = (LOOK, ACT)
TOKENS_FILE: Final = "console_tokens"
LIFETIME: Final = 12 * 3600
"""Seconds of a log-in."""
COOKIE: Final = "autopush_console"
LOGIN_RATE: Final = Rate(10, "min")
"""Attempts of one address."""
ALL_LOGINS_RATE: Final = Rate(60, "min")
_ABOUT: Final = "# SHA-256 of the console's tokens; `autopush console-token` makes another one."


class ConsoleTokens:
    """The tokens in the data folder: at most one of each role."""

    def __init__(self, data: Path) -> None:
        self.path = data / TOKENS_FILE
        self._read_at: tuple[int, int] | None = None
        self._hashes: dict[str, str] = {}

    def hashes(self) -> dict[str, str]:
        """By role; the file is read again when it has changed.

        :raises OSError: it cannot be read
        """
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return {}
        if (stat.st_mtime_ns, stat.st_ino) != self._read_at:
            words = [line.split() for line in self.path.read_text("utf-8").splitlines()]
            self._hashes = {each[0]: each[1] for each in words if len(each) == 2}
            self._read_at = stat.st_mtime_ns, stat.st_ino
        return self._hashes

    def make(self, role: str) -> str:
        """A new token in place of the role's former one; it is nowhere else.

        :raises OSError: the file cannot be read or written
        """
        token = new_secret()
        hashes = {**self.hashes(), role: hash_secret(token)}
        lines = [_ABOUT, *(f"{each} {hashed}" for each, hashed in sorted(hashes.items()))]
        write_private(self.path, "\n".join(lines) + "\n", self.path.parent)
        return token

    def role_of(self, token: str) -> str:
        """ "" for a token that is none."""
        hashed = hash_secret(token)
        roles = [role for role, each in self.hashes().items() if hmac.compare_digest(each, hashed)]
        return roles[0] if roles and roles[0] in ROLES else ""


class ConsoleSessions:
    """`key`: signs cookies. `clock`: epoch seconds; `monotonic`: for the rates."""

    def __init__(
        self, tokens: ConsoleTokens, key: bytes, clock: Clock, monotonic: Callable[[], float]
    ) -> None:
        self.tokens = tokens
        self._key, self._clock = key, clock
        self._by_address = TokenBuckets(LOGIN_RATE, monotonic=monotonic)
        self._together = TokenBuckets(ALL_LOGINS_RATE, monotonic=monotonic)

    def wait_before_attempt(self, address: str) -> float:
        """Count an attempt to log in; returns the seconds to wait if there are too many."""
        return self._by_address.wait_for_token(address or "unix") or self._together.wait_for_token(
            "all"
        )

    def open(self, token: str) -> str:
        """The value of a cookie; "" if the token is none."""
        role = self.tokens.role_of(token)
        return self._sign(role, int(self._clock()) + LIFETIME) if role else ""

    def role_of(self, cookie: str) -> str:
        """ "" for a cookie that is none, or has ended."""
        role, _, rest = cookie.partition(".")
        ends = rest.partition(".")[0]
        if role not in ROLES or not (ends.isascii() and ends.isdigit()):
            return ""
        if int(ends[:12]) <= self._clock() or role not in self.tokens.hashes():
            return ""
        return role if hmac.compare_digest(cookie, self._sign(role, int(ends[:12]))) else ""

    def _sign(self, role: str, ends: int) -> str:
        what = f"{role}.{ends}"
        signed = f"{what}.{self.tokens.hashes()[role]}".encode()
        return f"{what}.{hmac.digest(self._key, signed, 'sha256').hex()}"
