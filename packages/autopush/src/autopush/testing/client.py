"""The Python side of a test service: the verbs of its control API as methods."""

import asyncio
import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from autopush.testing.control import (
    ClockMove,
    ClockTime,
    Message,
    NextRequest,
    SubscribeRequest,
    SubscriptionInfo,
    Switch,
    Target,
)
from autopush.testing.running import Address, service_in_thread
from autopush.testing.steering import AnswerRule, ReceivedPush
from autopush.testing.user_agents import UnreadableBody
from autopush.webpush.syntax import encode_base64url

CONTROL_TIMEOUT: Final = 30.0
"""Seconds until the control API has answered, beside what `next` waits."""

_T = TypeVar("_T")


class VapidKey:
    """A new key pair of a sender, `private` and `public` in base64url, as the libraries of most
    languages take them.
    """

    def __init__(self) -> None:
        key = generate_private_key(SECP256R1())
        number = key.private_numbers().private_value
        self.private = encode_base64url(number.to_bytes(32, "big"))
        self.public = encode_base64url(
            key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        )


class Subscription:
    """A subscription of a user agent of its own. `info`: what a page gives to its server."""

    def __init__(self, service: "PushService", info: SubscriptionInfo) -> None:
        self._service = service
        self.endpoint = info.endpoint
        self.p256dh, self.auth = info.keys.p256dh, info.keys.auth

    @property
    def info(self) -> dict[str, Any]:
        return {"endpoint": self.endpoint, "keys": {"p256dh": self.p256dh, "auth": self.auth}}

    def next(self, timeout: float = 5.0) -> Message:
        """The next message, decrypted.

        :raises TimeoutError: none has come in `timeout` seconds; the text says what was received
        :raises UnreadableBody: a browser could not have read it; the text says why
        """
        return self._service.call("next", NextRequest(self.endpoint, timeout), Message, timeout)

    async def anext(self, timeout: float = 5.0) -> Message:  # noqa: ASYNC109 - as `next`
        """As `next`, without keeping the event loop."""
        return await asyncio.to_thread(self.next, timeout)

    def expire(self) -> None:
        """Have the service forget the user agent: 410, errno 103."""
        self._service.expire(self.endpoint)

    def unsubscribe(self) -> None:
        """Have the user unsubscribe: 410, errno 106."""
        self._service.call("unsubscribe", Target(self.endpoint))

    def disconnect(self) -> None:
        """Drop its socket: messages are stored, within their TTL."""
        self._service.call("disconnect", Target(self.endpoint))

    def reconnect(self) -> None:
        """Connect again, and get what was stored."""
        self._service.call("reconnect", Target(self.endpoint))


class PushService:
    """A running test service. `only`, where a method has it: the one subscription that is meant, or
    its endpoint.

    Methods may be called from any thread, and from coroutines: each takes about a millisecond, but
    for `Subscription.next`.
    """

    def __init__(self, address: Address) -> None:
        self.url, self.websocket_url, self.ca = address.url, address.websocket_url, address.ca
        self.address = address

    @classmethod
    @contextmanager
    def running(cls, *, tls: bool = False) -> Iterator["PushService"]:
        """A new one, in a thread. `tls`: with a certificate by a CA whose file is `ca`."""
        with service_in_thread(tls=tls) as address:
            yield cls(address)

    @staticmethod
    def new_vapid_key() -> VapidKey:
        """A key pair to sign pushes with."""
        return VapidKey()

    def subscribe(self, vapid_key: str | None = None) -> Subscription:
        """Connect a new user agent. `vapid_key`: the public key of the only sender."""
        return Subscription(
            self, self.call("subscribe", SubscribeRequest(vapid_key), SubscriptionInfo)
        )

    @property
    def received(self) -> list[ReceivedPush]:
        """Every push received so far, with its answer and its `mistakes`."""
        return self.call("received", None, list[ReceivedPush])

    def answer(
        self,
        status: int | None = None,
        *,
        errno: int | None = None,
        retry_after: int | None = None,
        times: int | None = 1,
        only: Subscription | str | None = None,
    ) -> None:
        """Answer the next pushes with a status or errno. `retry_after`: seconds. `times`: how many
        pushes; None for all.
        """
        self._add(only, status=status, errno=errno, retry_after=retry_after, times=times)

    def delay(
        self, seconds: float, *, times: int | None = 1, only: Subscription | str | None = None
    ) -> None:
        """Answer the next pushes later."""
        self._add(only, delay=seconds, times=times)

    def drop(self, *, times: int | None = 1, only: Subscription | str | None = None) -> None:
        """Close the connections of the next pushes without an answer."""
        self._add(only, drop=True, times=times)

    def _add(self, only: Subscription | str | None, **members: Any) -> None:
        endpoint = only.endpoint if isinstance(only, Subscription) else only
        self.call("answer", AnswerRule(endpoint=endpoint, **members))

    def hold(self) -> None:
        """Leave pushes unanswered until `release`."""
        self.call("hold")

    def release(self) -> None:
        """Go on with what was held."""
        self.call("release")

    def expire(self, endpoint: str) -> None:
        """Forget the user agent, also a browser: 410, errno 103."""
        self.call("expire", Target(endpoint))

    def refuse_to_store(self, *, on: bool = True) -> None:
        """Answer as with a full disk: 503, errno 205."""
        self.call("refuse_to_store", Switch(on))

    def require_vapid(self, *, on: bool = True) -> None:
        """Answer pushes without a VAPID token with 401, errno 120."""
        self.call("require_vapid", Switch(on))

    def move_clock(self, seconds: float) -> float:
        """Move the clock by which messages and tokens expire; returns its time."""
        return self.call("move_clock", ClockMove(seconds), ClockTime).now

    def reset(self) -> None:
        """Forget rules and pushes; set clock and switches back. Subscriptions stay."""
        self.call("reset")

    def call(
        self,
        verb: str,
        given: msgspec.Struct | None = None,
        returns: type[_T] = object,  # type: ignore[assignment]
        seconds: float = 0.0,
    ) -> _T:
        """A verb of the control API, over a connection of its own."""
        place = urlsplit(self.address.control).netloc
        connection = http.client.HTTPConnection(place, timeout=seconds + CONTROL_TIMEOUT)
        headers = {"Authorization": f"Bearer {self.address.token}"}
        try:
            connection.request("POST", f"/{verb}", msgspec.json.encode(given or {}), headers)
            response = connection.getresponse()
            status, body = response.status, response.read()
        finally:
            connection.close()
        if status == 200:
            return msgspec.json.decode(body, type=returns)
        text = msgspec.json.decode(body)["error"]
        raise {408: TimeoutError, 422: UnreadableBody}.get(status, ValueError)(text)
