"""The HTTP API of Google Cloud Messaging, which Firebase Cloud Messaging kept as its legacy API.

Google has shut down both. The format is theirs: a message has one registration ID, the device's
token, and the reply one result for it, with a message ID or the name of an error.
"""

from collections.abc import Mapping
from typing import Final

import orjson
from msgspec import Struct

from autopush.bridges.payload import (
    bridge_ttl,
    check_size,
    check_token,
    device_token,
    message_data,
)
from autopush.bridges.provider import Provider, Reply, retry_headers
from autopush.clock import Clock
from autopush.delivery.bridge_contract import RouterData, RouterError
from autopush.settings import StartupError
from autopush.settings.value_types import is_auth_key
from autopush.store.users import UserRecord
from autopush.webpush.errors import Errno, Header
from autopush.webpush.notification import Notification
from keytables import Value

TIMEOUT: Final = 7.0
"""Seconds of one message: `Provider` has 3 for a free connection, and 3 for the reply."""
MAX_DATA: Final = 4096
"""Bytes that the members of a message have together, as JSON."""
LATER: Final = "Please try request later."


class GcmResult(Struct, frozen=True, kw_only=True):
    """What became of a message.

    `error`: the API's name of what was wrong, None if it was accepted; `headers`: of the response
    to the sender, TTL if it was accepted, else Retry-After as far as the API sent it.
    """

    error: str | None
    headers: tuple[Header, ...]


class GcmApi:
    """Sends to the devices of some senders. `keys`: their keys by sender ID; `shortest_ttl`:
    seconds; `dry_run`: messages are checked, not delivered; `collapse_key`: of all messages, none
    if empty.
    """

    def __init__(
        self,
        url: str,
        keys: Mapping[str, str],
        *,
        shortest_ttl: int,
        dry_run: bool,
        collapse_key: str,
        clock: Clock,
    ) -> None:
        self._url = url
        self._keys = keys
        self._shortest_ttl = shortest_ttl
        self._dry_run = dry_run
        self._collapse_key = collapse_key
        self._clock = clock
        self._provider = Provider()

    def check_registration(self, router_data: dict[str, Value], sender: str) -> None:
        """Check the token and the sender ID of a registration.

        :raises RouterError: 401/109 or 400/108, the token; 410/105, the sender ID
        """
        check_token(router_data)
        if sender not in self._keys:
            raise RouterError(Errno.ENDPOINT_UNAVAILABLE, "Invalid SenderID")

    async def send(self, notification: Notification, record: UserRecord, sender: str) -> GcmResult:
        """Send to one device, which was registered with that sender ID.

        :raises RouterError: 410/105 or 106, the record is incomplete; 500/900 or 901, no key, or it
            is refused; 413/104, too long; 503/201, the service is overloaded or failed; 503/202,
            the device has another token; 500/999, no known reply; 502, as `Provider.post`
        """
        if not sender:
            reason = "Missing SenderID"
            raise RouterError(Errno.ENDPOINT_UNAVAILABLE, reason, critical_failure=reason)
        token = device_token(record)
        if (key := self._keys.get(sender)) is None:
            raise RouterError(
                Errno.BRIDGE_MISCONFIGURED,
                "The service has no key for the sender ID of this device",
            )
        router_data = record.router_data or {}
        data = message_data(notification)
        check_size(len(orjson.dumps(data)), MAX_DATA)
        ttl = bridge_ttl(notification, self._shortest_ttl)
        message = {
            "registration_ids": [token],
            "time_to_live": ttl,
            "delay_while_idle": False,
            "dry_run": self._dry_run or bool(router_data.get("dryrun")),
            "data": data,
        }
        if self._collapse_key:
            message["collapse_key"] = self._collapse_key
        reply = await self._provider.post(
            self._url, headers={"Authorization": f"key={key}"}, json=message
        )
        result = self._result(reply)
        if isinstance(error := result.get("error"), str):
            return GcmResult(error=error, headers=retry_headers(reply.headers, self._clock()))
        new_token = result.get("registration_id")
        if isinstance(new_token, str) and new_token not in ("", token):
            raise _token_replaced(router_data, new_token)
        return GcmResult(error=None, headers=(("TTL", str(ttl)),))

    async def close(self) -> None:
        await self._provider.close()

    def _result(self, reply: Reply) -> Mapping[str, object]:
        """The result for the only device of a request.

        :raises RouterError: there is none
        """
        status = reply.status
        if status == 401:
            raise RouterError(
                Errno.BRIDGE_REFUSED,
                "The bridge does not accept the key of this service",
                status=500,
                is_outage=True,
            )
        if status == 429 or status >= 500:
            headers, text = retry_headers(reply.headers, self._clock()), LATER
            if headers:
                text = f"Please try request in {headers[0][1]} seconds."
            raise RouterError(Errno.BACK_OFF, text, headers=headers, is_outage=True)
        results = reply.document.get("results")
        result = results[0] if isinstance(results, list) and results else None
        if status == 200 and isinstance(result, dict) and result.keys() & {"message_id", "error"}:
            return result
        # 400 may be the fault of one message; the others concern all users.
        raise RouterError(Errno.UNKNOWN, LATER, is_outage=status != 400)


def sender_id(router_data: RouterData) -> str:
    """The sender ID in a record of GCM, or of FCM as the original 1.33 wrote it; else empty.

    The original kept the sender's key beside it; that is not used.
    """
    creds = router_data.get("creds")
    found = creds.get("senderID") if isinstance(creds, Mapping) else None
    return found if isinstance(found, str) else ""


def server_keys(option: str, configured: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """The member `auth` of each sender ID.

    :raises StartupError: a sender ID has none that can be sent
    """
    keys = {}
    for sender, members in configured.items():
        key = members.get("auth")
        if not isinstance(key, str) or not is_auth_key(key):
            raise StartupError(f"{option}: {sender} needs a member 'auth' with its key")
        keys[sender] = key
    return keys


def _token_replaced(router_data: RouterData, token: str) -> RouterError:
    """503/202: the device has this token now, to which the sender's next attempt will go."""
    changed: dict[str, Value] = {**router_data, "token": token}
    if sender := sender_id(router_data):
        changed["creds"] = {"senderID": sender}
    return RouterError(
        Errno.RETRY,
        "Please try request again.",
        headers=(("Retry-After", "1"),),
        router_data=changed,
    )
