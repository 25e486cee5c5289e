"""The bodies of the registration API: JSON objects whose members are all optional.

channelID  a UUID, in any spelling
key        the application server's public key, base64url, which the endpoint is restricted to
any other  router data: what the router needs to reach the user, such as its token
"""

from collections.abc import Mapping
from typing import Final

import orjson

from autopush.webpush.errors import Errno, PushError
from autopush.webpush.identifiers import canonical_uuid, dashed, new_uaid
from autopush.webpush.tokens import decode_key
from keytables import Value

MAX_BODY: Final = 16 * 1024
"""Bytes of a body, and of the router data that is stored, as JSON."""

_NO_ROUTER_DATA: Final = frozenset({"app_id", "channelID", "creds", "key", "rel_channel"})
"""Members that are not router data: they say something else, or only the router may set them."""


class RegistrationBody:
    """A body; an empty one has no members.

    :raises PushError: 400/108, not a JSON object; 413/104
    """

    def __init__(self, body: bytes) -> None:
        if len(body) > MAX_BODY:
            raise too_large()
        try:
            members = orjson.loads(body) if body else {}
        except orjson.JSONDecodeError:
            members = None
        if not isinstance(members, dict):
            raise PushError.invalid(Errno.INVALID_ROUTER_TYPE, "the body: expected a JSON object")
        self._members: Mapping[str, Value] = members

    def router_data(self) -> dict[str, Value]:
        """What is for the router."""
        return {name: self._members[name] for name in self._members.keys() - _NO_ROUTER_DATA}

    def channel_id(self) -> str:
        """The channel id, dashed; a new one if there is none.

        :raises PushError: 400/108, it is no UUID
        """
        given = self._members.get("channelID")
        if given is None:
            return dashed(new_uaid())
        channel_id = canonical_uuid(given)
        if channel_id is None:
            raise invalid_member("channelID", "expected a UUID")
        return channel_id

    def key(self) -> bytes | None:
        """The key of the application server, None without one.

        :raises PushError: 400/108, it is not base64url
        """
        try:
            return decode_key(self._members.get("key"))
        except ValueError as error:
            raise invalid_member("key", str(error).removeprefix("key: ")) from None


def invalid_member(name: str, complaint: str) -> PushError:
    """400/108: that member is wrong."""
    errors = {name: [complaint]}
    return PushError.invalid(Errno.INVALID_ROUTER_TYPE, f"{name}: {complaint}", errors=errors)


def too_large() -> PushError:
    """413/104."""
    return PushError.invalid(
        Errno.PAYLOAD_TOO_LARGE, f"the body: it may have {MAX_BODY} bytes, stored data included"
    )
