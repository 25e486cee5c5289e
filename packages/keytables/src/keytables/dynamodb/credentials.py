"""Credentials from botocore's chain, renewed before they expire.

The rule: the chain blocks, so it is asked in a thread, by one at a time; calls go on with the old
credentials as long as the server takes them.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Final, TypeVar, cast

import botocore.session
import msgspec
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import PartialCredentialsError, ProfileNotFound

from keytables.dynamodb.signature import Credentials
from keytables.errors import Unavailable

__all__ = ["MADE_UP", "WAYS", "Found", "Keeper", "find_credentials", "in_thread"]

log = logging.getLogger(__name__)

WAYS: Final = (
    "Give credentials by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (with temporary ones also "
    "AWS_SESSION_TOKEN), by AWS_PROFILE and the files ~/.aws/credentials and ~/.aws/config, by "
    "AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE, or by the role of the container or instance."
)
"""How credentials are given, for error texts."""

LOOK: Final = 30.0
"""Seconds between two looks at the expiry."""
AHEAD: Final = 900.0
"""Seconds before the expiry at which new ones are asked for."""
PAUSE: Final = 5.0
"""Seconds between two askings because of a refusal."""


class Found(msgspec.Struct, frozen=True):
    """Credentials, and a question that never blocks: do they expire within so many seconds?"""

    credentials: Credentials
    expires_within: Callable[[float], bool]


def _never(_: float) -> bool:
    return False


MADE_UP: Final = Found(Credentials("keytables", "keytables"), _never)
"""For servers on this machine, which take anybody's."""


def find_credentials(region: str, *, role: bool) -> Found | None:
    """Ask botocore's chain, from its beginning. Blocking.

    ``role``: also ask the instance this runs on for the credentials of its role. Raises
    Unavailable: there are some, and they cannot be had.
    """
    try:
        session = botocore.session.Session()
        session.set_config_variable("region", region)
        if not role:
            session.get_component("credential_provider").remove("iam-role")
        source = session.get_credentials()
        if source is None:
            return None
        frozen = source.get_frozen_credentials()
    except (PartialCredentialsError, ProfileNotFound) as exc:
        raise Unavailable(f"the AWS credentials are incomplete: {exc}. {WAYS}") from exc
    except Exception as exc:  # noqa: BLE001 - whatever a provider meets; its text may show secrets
        raise Unavailable(f"no AWS credentials can be had: {type(exc).__name__}. {WAYS}") from None
    credentials = Credentials(
        frozen.access_key or "", frozen.secret_key or "", frozen.token or None
    )
    if not credentials.usable:
        raise Unavailable(f"the AWS credentials contain characters that no key has. {WAYS}")
    if isinstance(source, RefreshableCredentials):
        return Found(credentials, lambda seconds: source.refresh_needed(int(seconds)))
    return Found(credentials, _never)


T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> "asyncio.Future[T]":
    """Run in a thread that nothing waits for at exit, however long it blocks."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def answer(value: T | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(cast(T, value))
        else:
            future.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except Exception as exc:  # noqa: BLE001 - it is the future's
            error = exc
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(answer, value, error)

    threading.Thread(target=run, name="credentials", daemon=True).start()
    return future


class Keeper:
    """Keeps credentials fresh. ``changed`` is called with what each asking brought.

    ``load`` blocks; it raises Unavailable, or returns None where there are none any more.
    """

    def __init__(
        self,
        found: Found,
        load: Callable[[], Found | None],
        changed: Callable[[Credentials], None],
    ) -> None:
        self._found = found
        self._load = load
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._loading: asyncio.Future[Found | None] | None = None
        self._loaded_at = float("-inf")
        self._ahead = AHEAD
        self._timer = self._loop.call_later(LOOK, self._look)

    async def renew(self, refused: Credentials, seconds: float) -> bool:
        """Whether there are other credentials now than those the server refused."""
        if self._found.credentials == refused:
            if self._loading is None and self._loop.time() < self._loaded_at + PAUSE:
                return False
            await asyncio.wait([self._start()], timeout=seconds)
        return self._found.credentials != refused

    def close(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK, self._look)
        if self._found.expires_within(self._ahead):
            self._start()

    def _start(self) -> "asyncio.Future[Found | None]":
        if self._loading is None:
            self._loading = in_thread(self._load)
            self._loading.add_done_callback(self._loaded)
        return self._loading

    def _loaded(self, future: "asyncio.Future[Found | None]") -> None:
        self._loading = None
        self._loaded_at = self._loop.time()
        error = future.exception()
        found = None if error else future.result()
        if found is None:
            log.warning("the AWS credentials could not be renewed: %s", error or "there are none")
            return
        self._found = found
        # Short-lived ones, and old ones handed out again, are not asked for at every look.
        self._ahead = AHEAD
        while self._ahead > LOOK and found.expires_within(self._ahead):
            self._ahead /= 2
        self._changed(found.credentials)
