"""Signed requests: the credentials, their refresh, and AWS Signature Version 4.

Rule: a signature covers the host, time, operation and body of a request. Source: AWS IAM user
guide, "Create a signed AWS API request".
"""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar, cast

import msgspec

log = logging.getLogger(__name__)

CREDENTIALS_HELP: Final = (
    "Give credentials by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (with temporary ones also "
    "AWS_SESSION_TOKEN), by AWS_PROFILE and the files ~/.aws/credentials and ~/.aws/config, by "
    "AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE, or by the role of the container or instance."
)

CONTENT_TYPE: Final = "application/x-amz-json-1.0"
SERVICE: Final = "dynamodb"
API: Final = "DynamoDB_20120810"

_ALGORITHM: Final = "AWS4-HMAC-SHA256"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    access_key: str
    secret_key: str
    token: str | None = None

    def __repr__(self) -> str:
        return "Credentials(…)"

    @property
    def is_usable(self) -> bool:
        """Whether they can be written into an HTTP header."""
        texts = (self.access_key, self.secret_key, self.token or "none")
        return all(
            text.isascii() and text.isprintable() and text.split() == [text] for text in texts
        )


class Signer:
    """Renders the requests to one host, signed with one set of usable credentials.

    ``authority``: value of the Host header. ``skew``: seconds the server's clock is ahead of ours.
    The signing key is kept for a day, the date for a second: a request costs three hashes.
    """

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
        """Return the whole HTTP request. ``now``: seconds since the epoch by our clock."""
        second = int(now + self.skew)
        if second != self._second:
            self._set_second(second)
        digest = hashlib.sha256(body).hexdigest()
        canonical = (self._canonical % (self._stamp, operation, digest)).encode()
        key = self._key.copy()
        key.update((self._to_sign + hashlib.sha256(canonical).hexdigest()).encode())
        values = (operation, self._stamp, len(body), self._credential, key.hexdigest())
        return (self._head % values).encode() + body

    def _set_second(self, second: int) -> None:
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


def never_expires(_: float) -> bool:
    return False


class LoadedCredentials(msgspec.Struct, frozen=True):
    """Credentials, and whether they expire within so many seconds (which does not block)."""

    credentials: Credentials
    expires_within: Callable[[float], bool]


DUMMY_CREDENTIALS: Final = LoadedCredentials(Credentials("keytables", "keytables"), never_expires)
"""For servers on this machine, which accept any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshTimes:
    """When credentials are refreshed, in seconds."""

    check_interval: float = 30.0
    """Between two checks of the expiry."""
    margin: float = 900.0
    """Before the expiry, at which new ones are loaded."""
    cooldown: float = 5.0
    """Between two loads because the server refused them."""


class CredentialRefresher:
    """Loads new credentials before the present ones expire, or when the server refuses them.

    ``load`` blocks: it runs in a thread, once at a time, while calls go on. It raises Unavailable,
    or returns None where there are none any more. ``on_change`` receives what was loaded.
    """

    def __init__(
        self,
        loaded: LoadedCredentials,
        load: Callable[[], LoadedCredentials | None],
        on_change: Callable[[Credentials], None],
        times: RefreshTimes,
    ) -> None:
        self._loaded = loaded
        self._load = load
        self._on_change = on_change
        self._times = times
        self._loop = asyncio.get_running_loop()
        self._loading: asyncio.Future[LoadedCredentials | None] | None = None
        self._loaded_at = float("-inf")
        self._margin = times.margin
        self._timer = self._loop.call_later(times.check_interval, self._check)

    async def renew(self, refused: Credentials, seconds: float) -> bool:
        """Wait for credentials other than the refused ones; return whether there are any."""
        if self._loaded.credentials == refused:
            if self._loading is None and self._loop.time() < self._loaded_at + self._times.cooldown:
                return False
            await asyncio.wait([self._start_loading()], timeout=seconds)
        return self._loaded.credentials != refused

    def close(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        self._timer = self._loop.call_later(self._times.check_interval, self._check)
        if self._loaded.expires_within(self._margin):
            self._start_loading()

    def _start_loading(self) -> "asyncio.Future[LoadedCredentials | None]":
        if self._loading is None:
            self._loading = run_in_thread(self._load)
            self._loading.add_done_callback(self._on_loaded)
        return self._loading

    def _on_loaded(self, future: "asyncio.Future[LoadedCredentials | None]") -> None:
        self._loading = None
        self._loaded_at = self._loop.time()
        error = future.exception()
        loaded = None if error else future.result()
        if loaded is None:
            log.warning("the AWS credentials could not be renewed: %s", error or "there are none")
            return
        self._loaded = loaded
        # Credentials that are short-lived, or returned unchanged, are not loaded at every check.
        self._margin = self._times.margin
        while self._margin > self._times.check_interval and loaded.expires_within(self._margin):
            self._margin /= 2
        self._on_change(loaded.credentials)


def run_in_thread(work: Callable[[], _T]) -> "asyncio.Future[_T]":
    """Run in a daemon thread, which the exit of the process does not wait for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def complete(value: _T | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(cast(_T, value))
        else:
            future.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except Exception as exc:  # noqa: BLE001 - passed on by the future
            error = exc
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(complete, value, error)

    threading.Thread(target=run, name="credentials", daemon=True).start()
    return future
