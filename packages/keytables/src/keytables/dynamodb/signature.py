"""Requests as bytes, signed with AWS Signature Version 4.

The rule: all that a request means is signed: its host, its time, its operation and its body.
Everything else of the head is the same for every request and rendered once.

Source: AWS IAM user guide, "Create a signed AWS API request". What stays the same for a day (the
signing key) or a second (the date) is kept; a request costs three hashes.
"""

import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import Final

__all__ = ["Credentials", "Signer"]

CONTENT_TYPE: Final = "application/x-amz-json-1.0"
SERVICE: Final = "dynamodb"
API: Final = "DynamoDB_20120810"

_ALGORITHM: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """What requests are signed with. Its representation shows none of it."""

    access_key: str
    secret_key: str
    token: str | None = None

    def __repr__(self) -> str:
        return "Credentials(…)"

    @property
    def usable(self) -> bool:
        """Whether they can be written into a header."""
        texts = (self.access_key, self.secret_key, self.token or "none")
        return all(
            text.isascii() and text.isprintable() and text.split() == [text] for text in texts
        )


class Signer:
    """Makes the requests for one host, signed with one set of credentials.

    ``authority`` is the host as the Host header names it, with its port unless that is the default.
    The credentials are usable. ``skew``: seconds by which the server's clock is ahead of ours.
    """

    __slots__ = (
        "_canonical",
        "_credential",
        "_day",
        "_head",
        "_key",
        "_region",
        "_second",
        "_stamp",
        "_to_sign",
        "credentials",
        "skew",
    )

    def __init__(
        self, credentials: Credentials, *, region: str, authority: str, skew: float = 0.0
    ) -> None:
        self.credentials, self.skew = credentials, skew
        self._region = region
        token = (credentials.token or "").replace("%", "%%")
        signed = "content-type;host;x-amz-date;"
        signed += "x-amz-security-token;x-amz-target" if token else "x-amz-target"
        token_line = f"x-amz-security-token:{token}\n" if token else ""
        self._canonical = (
            f"POST\n/\n\ncontent-type:{CONTENT_TYPE}\nhost:{authority}\nx-amz-date:%s\n{token_line}"
            f"x-amz-target:{API}.%s\n\n{signed}\n%s"
        )
        self._head = (
            f"POST / HTTP/1.1\r\nhost: {authority}\r\ncontent-type: {CONTENT_TYPE}\r\n"
            "user-agent: keytables\r\naccept-encoding: identity\r\n"
            + (f"x-amz-security-token: {token}\r\n" if token else "")
            + f"x-amz-target: {API}.%s\r\nx-amz-date: %s\r\ncontent-length: %d\r\n"
            f"authorization: {_ALGORITHM} Credential=%s, "
            f"SignedHeaders={signed}, Signature=%s\r\n\r\n"
        )
        self._second = -1
        self._stamp = self._day = self._credential = self._to_sign = ""
        self._key = hmac.new(b"", digestmod="sha256")

    def request(self, operation: str, body: bytes, now: float) -> bytes:
        """The whole request. ``now``: seconds since the epoch, as we count them."""
        second = int(now + self.skew)
        if second != self._second:
            self._turn(second)
        digest = hashlib.sha256(body).hexdigest()
        canonical = (self._canonical % (self._stamp, operation, digest)).encode()
        key = self._key.copy()
        key.update((self._to_sign + hashlib.sha256(canonical).hexdigest()).encode())
        values = (operation, self._stamp, len(body), self._credential, key.hexdigest())
        return (self._head % values).encode() + body

    def _turn(self, second: int) -> None:
        """Begin a second, and perhaps a day."""
        self._stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        day = self._stamp[:8]
        scope = f"{day}/{self._region}/{SERVICE}/aws4_request"
        if day != self._day:
            key = f"AWS4{self.credentials.secret_key}".encode()
            for part in (day, self._region, SERVICE, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = hmac.new(key, digestmod="sha256")
            self._day = day
            self._credential = f"{self.credentials.access_key}/{scope}"
        self._to_sign = f"{_ALGORITHM}\n{self._stamp}\n{scope}\n"
        self._second = second
