"""Service accounts of Google: from a key file to access tokens (OAuth 2.0, RFC 7523).

A token endpoint that refuses is 502/901, one that cannot be reached or makes no sense 502/902, one
that takes too long 502/903. Neither keys nor tokens are part of an error.
"""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson
from google.auth import jwt
from google.oauth2.service_account import Credentials

from autopush.bridges.access_token import Grant
from autopush.bridges.provider import Provider, Reply, retry_after
from autopush.clock import Clock
from autopush.delivery.bridge_contract import RouterError
from autopush.webpush.errors import Errno

GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_PATH: Final = re.compile(r"[\w./~ -]{1,200}\.(json|pem|p8|key|crt|cert)")
ASSERTION_LIFETIME: Final = 3600
"""Seconds; Google accepts no longer ones."""


class ServiceAccount:
    """An account that gets access tokens for one scope. `members`: of its key file.

    :raises ValueError: the members are not those of a service account; the text holds no secret
    """

    def __init__(
        self, members: Mapping[str, object], scope: str, provider: Provider, clock: Clock
    ) -> None:
        try:
            credentials = Credentials.from_service_account_info(members)  # type: ignore[no-untyped-call]
            credentials.signer.sign(b"")  # no other key than an RSA key can
        except (ValueError, TypeError, AttributeError):  # the text may repeat a part of the key
            raise ValueError("not the key of a service account") from None
        self._token_url = str(members["token_uri"])
        if not self._token_url.startswith(("https://", "http://")):
            raise ValueError("its token_uri is not a URL")
        self._signer = credentials.signer
        self._email: str = credentials.service_account_email
        self._scope = scope
        self._provider = provider
        self._clock = clock

    async def fetch(self) -> Grant:
        """A new access token.

        :raises RouterError: there is none
        """
        now = int(self._clock())
        claims = {
            "iss": self._email,
            "scope": self._scope,
            "aud": self._token_url,
            "iat": now,
            "exp": now + ASSERTION_LIFETIME,
        }
        # An RSA signature costs about a millisecond.
        assertion: bytes = await asyncio.to_thread(jwt.encode, self._signer, claims)
        form = {"grant_type": GRANT_TYPE, "assertion": assertion.decode()}
        reply = await self._provider.post(self._token_url, headers={}, form=form, idempotent=True)
        return self._read(reply)

    def _read(self, reply: Reply) -> Grant:
        if reply.status in (429, 503):
            raise RouterError.retry_after(
                retry_after(reply.headers, self._clock()), "The bridge of this device is overloaded"
            )
        if 400 <= reply.status < 500:
            raise RouterError(
                Errno.BRIDGE_REFUSED,
                "The bridge does not accept the credentials of this service",
                is_outage=True,
            )
        text, seconds = reply.document.get("access_token"), reply.document.get("expires_in")
        if isinstance(seconds, str) and seconds.isascii() and seconds.isdecimal():
            seconds = int(seconds[:9])
        is_token = isinstance(text, str) and text.isascii() and text.isprintable()
        if reply.status != 200 or not is_token or not text or not isinstance(seconds, int):
            raise RouterError(
                Errno.BRIDGE_UNREACHABLE, "The bridge gave no access token", is_outage=True
            )
        return Grant(str(text), seconds)


def read_key(key: object) -> Mapping[str, object]:
    """The members of a key: the path of its file, or the JSON of one, or its object.

    :raises ValueError: what is wrong; the text repeats nothing of the key
    """
    if isinstance(key, Mapping):
        return key
    if not isinstance(key, str) or not key.strip():
        raise ValueError("no key file is named")
    is_json = key.lstrip().startswith("{")
    path = "" if is_json else shown_path(key)
    try:
        document = orjson.loads(key if is_json else Path(key).expanduser().read_bytes())
    except OSError as error:
        raise ValueError(f"its key file{path} cannot be read: {error.strerror}") from None
    except ValueError:  # from JSON, or from a path with a NUL
        raise ValueError(f"its key{path} is not JSON") from None
    if not isinstance(document, dict):
        raise ValueError(f"its key{path} is not a JSON object")  # noqa: TRY004 - one error for callers
    if "project_info" in document and "client" in document:
        raise ValueError(
            f"its key{path} is a google-services.json, which is a part of the app; needed is the "
            "key of a service account (Firebase console, Project settings, Service accounts)"
        )
    return document


def shown_path(text: str) -> str:
    """A path for a message, after a space; empty where it is not surely one, since it could be a
    key that was put in its place.
    """
    try:
        is_path = _PATH.fullmatch(text) is not None or Path(text).expanduser().exists()
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, no such home folder
        is_path = False
    return f" {text}" if is_path else ""
