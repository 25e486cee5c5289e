"""Amazon Device Messaging, for apps on Fire devices.

An app's client ID and secret get an access token (RFC 6749, 4.4) for messages to its devices.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from autopush.bridges.oauth import Grant, TokenCache
from autopush.bridges.payload import bridge_ttl, check_token, device_token, limited_data
from autopush.bridges.provider import (
    Provider,
    Reply,
    refused,
    retry_after,
    retry_headers,
    unreachable,
)
from autopush.clock import Clock
from autopush.delivery.bridge_contract import Router, RouterData, RouterError, RouterResponse
from autopush.settings import Settings, StartupError
from autopush.settings.value_types import is_auth_key
from autopush.shown import shown
from autopush.store.users import UserRecord
from autopush.webpush.errors import Errno
from autopush.webpush.notification import Notification
from keytables import Value

TIMEOUT: Final = 6.0
"""Seconds for one notification, including the request for a token if one is needed."""
SHORTEST_TTL: Final = 60
MAX_DATA: Final = 6144
"""Bytes of the JSON of `data`."""

_TOKEN: Final = re.compile(r"amzn1\.adm-registration\.v3\.[^ ]{256,}")
_HEADERS: Final = {
    "Accept": "application/json",
    "X-Amzn-Type-Version": "com.amazon.device.messaging.ADMMessage@1.0",
    "X-Amzn-Accept-Type": "com.amazon.device.messaging.ADMSendResult@1.0",
}


class Profile(Struct, frozen=True):
    """A security profile at Amazon."""

    client_id: str
    client_secret: str

    # Keeps the secret out of logs.
    def __repr__(self) -> str:
        return f"Profile(client_id={self.client_id!r})"


class AdmRouter(Router):
    """Router type `adm`. `endpoint`: the base URL; `patience`: seconds per notification."""

    def __init__(
        self,
        endpoint: str,
        profiles: Mapping[str, Profile],
        clock: Clock,
        patience: float = TIMEOUT,
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._patience = patience
        self.timeout = patience + 1  # `patience` must expire first: its errno differs
        self._provider = Provider()
        self._tokens = {
            name: TokenCache(name, partial(self._fetch_token, profile), clock)
            for name, profile in profiles.items()
        }

    def register(self, uaid: str, router_data: dict[str, Value], app_id: str) -> None:  # noqa: ARG002
        expected = "amzn1.adm-registration.v3. and at least 256 characters without spaces"
        check_token(router_data, form=_TOKEN, expected=expected)
        if app_id not in self._tokens:
            raise RouterError(Errno.ENDPOINT_UNAVAILABLE, f"Invalid profile: {shown(app_id)}")
        router_data["creds"] = {"profile": app_id}

    def application(self, router_data: RouterData) -> str:
        creds = router_data.get("creds")
        profile = creds.get("profile") if isinstance(creds, Mapping) else None
        return profile if isinstance(profile, str) else ""

    async def route_notification(
        self, notification: Notification, record: UserRecord
    ) -> RouterResponse:
        try:
            async with asyncio.timeout(self._patience):
                return await self._send(notification, record)
        except TimeoutError:
            raise unreachable() from None
        except RouterError as error:
            if error.errno == Errno.BRIDGE_TIMEOUT:
                raise unreachable() from None
            raise

    async def try_credentials(self) -> Sequence[str]:
        for token in self._tokens.values():
            await token.get()
        return tuple(self._tokens)

    async def close(self) -> None:
        for token in self._tokens.values():
            await token.close()
        await self._provider.close()

    async def _send(self, notification: Notification, record: UserRecord) -> RouterResponse:
        router_data = record.router_data or {}
        profile = self.application(router_data)
        if not profile:
            reason = "Missing profile"
            raise RouterError(Errno.ENDPOINT_UNAVAILABLE, reason, critical_failure=reason)
        device = device_token(record)
        access = self._tokens.get(profile)
        if access is None:
            raise RouterError(
                Errno.BRIDGE_MISCONFIGURED,
                "The service has no credentials for the profile of this device",
            )
        data = limited_data(notification, MAX_DATA)
        ttl = bridge_ttl(notification, SHORTEST_TTL)
        message: dict[str, object] = {"data": data, "expiresAfter": ttl}
        if notification.topic:
            message["consolidationKey"] = notification.topic
        reply = await self._post(device, message, access)
        if reply.status != 200:
            raise self._refusal(reply)
        headers = (("TTL", str(ttl)),)
        new_token = reply.document.get("registrationID")
        if isinstance(new_token, str) and new_token not in ("", device):
            changed = {**router_data, "token": new_token}
            return RouterResponse(headers=headers, router_data=changed)
        return RouterResponse(headers=headers)

    async def _post(self, device: str, message: Mapping[str, object], access: TokenCache) -> Reply:
        url = f"{self._endpoint}/messaging/registrations/{quote(device, safe='')}/messages"

        async def send(token: str) -> Reply:
            headers = {**_HEADERS, "Authorization": f"Bearer {token}"}
            return await self._provider.post(url, headers=headers, json=message)

        return await access.use(send, lambda reply: reply.status == 401)

    def _refusal(self, reply: Reply) -> RouterError:
        reason = reply.document.get("reason")
        if reply.status == 400 and reason == "Unregistered":
            return RouterError.unregistered()
        if reply.status == 401:
            return refused()
        if reply.status == 413:
            return RouterError(Errno.PAYLOAD_TOO_LARGE, "The bridge finds this too large")
        if reply.status == 429 or reply.status >= 500:
            seconds = retry_after(reply.headers, self._clock())
            return RouterError(
                Errno.BACK_OFF,
                f"Please try request in {seconds} seconds.",
                headers=(("Retry-After", str(seconds)),),
                is_outage=reply.status >= 500,
            )
        # 400 may be the fault of one message; the others concern all users.
        return RouterError(
            Errno.UNKNOWN,
            "The bridge did not take the message",
            headers=retry_headers(reply.headers, self._clock()),
            is_outage=reply.status != 400,
        )

    async def _fetch_token(self, profile: Profile) -> Grant:
        form = {
            "grant_type": "client_credentials",
            "scope": "messaging:push",
            "client_id": profile.client_id,
            "client_secret": profile.client_secret,
        }
        reply = await self._provider.post(
            f"{self._endpoint}/auth/O2/token",
            headers={"Accept": "application/json"},
            form=form,
            idempotent=True,
        )
        token, lifetime = reply.document.get("access_token"), reply.document.get("expires_in")
        is_token = isinstance(token, str) and is_auth_key(token)
        if reply.status == 200 and is_token and isinstance(lifetime, int) and lifetime > 0:
            return Grant(str(token), lifetime)
        raise refused()


def create(settings: Settings, clock: Clock) -> AdmRouter:
    """:raises StartupError: a profile lacks a member"""
    profiles = {}
    for name, members in (settings.adm_creds or {}).items():
        for member in ("client_id", "client_secret"):
            value = members.get(member)
            if not isinstance(value, str) or not value:
                raise StartupError(f"adm_creds: {name} needs a member {member!r}")
        profiles[name] = Profile(str(members["client_id"]), str(members["client_secret"]))
    return AdmRouter(settings.adm_endpoint, profiles, clock)
