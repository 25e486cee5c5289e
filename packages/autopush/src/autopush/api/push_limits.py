"""Who may send, and how often: the limits that an operator sets on pushes.

Rule: a stranger is refused before anything expensive is done for it, that is before the store is
read and a signature is verified. Only the rate of a sender is held to what its key has signed:
otherwise anybody could use it up.
"""

from collections.abc import Iterable
from typing import Final

from autopush.rates import Rate, TokenBuckets
from autopush.telemetry.limit_refusals import LimitRefusals
from autopush.webpush.endpoint_token import Endpoint, decode_key
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.jwt import uncompressed_point
from autopush.webpush.vapid import Credentials

MAX_KNOWN: Final = 32_768
"""Endpoints, and senders, whose rate is known at once."""

SUBJECT_SCHEMES: Final = ("mailto:", "https:")


class AllowedSenders:
    """A list of public VAPID keys and of `sub` claims.

    A `sub` proves nothing, as every sender may claim it; a key does.
    """

    def __init__(self, listed: Iterable[str]) -> None:
        points, subjects = set[bytes](), set[str]()
        for text in listed:
            if text.startswith(SUBJECT_SCHEMES):
                subjects.add(text)
            else:
                points.add(uncompressed_point(decode_key(text) or b""))
        self._points = frozenset(points)
        self._subjects = frozenset(subjects)

    def has(self, credentials: Credentials) -> bool:
        """Whether the key or the `sub` is listed; whether that key has signed is another question.

        :raises PushError: 401/109, no key or no token that can be read
        """
        if credentials.point() in self._points:
            return True
        return bool(self._subjects) and credentials.subject() in self._subjects


class PushLimits:
    """The limits of one worker. A rate of None, and an empty list of senders, set none."""

    def __init__(
        self,
        refusals: LimitRefusals,
        *,
        endpoint_rate: Rate | None = None,
        sender_rate: Rate | None = None,
        vapid_required: bool = False,
        allowed_senders: Iterable[str] = (),
    ) -> None:
        self._refusals = refusals
        self._messages = TokenBuckets(endpoint_rate, max_keys=MAX_KNOWN)
        self._deletions = TokenBuckets(endpoint_rate, max_keys=MAX_KNOWN)
        self._signed = TokenBuckets(sender_rate, max_keys=MAX_KNOWN)
        self.has_sender_rate: Final = sender_rate is not None
        listed = tuple(allowed_senders)
        self._allowed = AllowedSenders(listed) if listed else None
        self._is_vapid_required = vapid_required or self._allowed is not None

    def admit(self, endpoint: Endpoint, credentials: Credentials | None, now: float) -> None:
        """Admit a push whose endpoint and sender agree. `now`: seconds of the steady clock.

        :raises PushError: 401/120, it is anonymous; 403/121, the sender is not listed; 429/203,
            the endpoint gets too many
        """
        if self._is_vapid_required:
            self._check_sender(credentials)
        if wait := self._messages.take(endpoint.ids, now):
            what = f"messages to this endpoint: the limit is {self._messages.rate}"
            raise self._too_many("endpoint_rate", what, wait)

    def admit_sender(self, credentials: Credentials, now: float) -> None:
        """Admit a push whose signature is verified.

        :raises PushError: 429/203, its sender sends too many
        """
        if wait := self._signed.take(credentials.point(), now):
            what = f"messages signed with this key: the limit is {self._signed.rate}"
            raise self._too_many("sender_rate", what, wait)

    def admit_deletion(self, ids: str) -> None:
        """Admit that a message of these ids, of user and channel, is deleted. There may be as many
        deletions as messages.

        :raises PushError: 429/203, there are more
        """
        if wait := self._deletions.take(ids):
            what = f"deletions of this endpoint: the limit is {self._deletions.rate}"
            raise self._too_many("endpoint_rate", what, wait)

    def _check_sender(self, credentials: Credentials | None) -> None:
        if credentials is None:
            self._refusals.add("vapid_required")
            raise PushError(
                Errno.VAPID_REQUIRED, "missing authorization header: this service requires VAPID"
            )
        if self._allowed is not None and not self._allowed.has(credentials):
            self._refusals.add("allowed_senders")
            raise PushError(
                Errno.SENDER_NOT_ALLOWED, "Neither the key nor the sub of this sender is allowed"
            )

    def _too_many(self, limit: str, what: str, wait: float) -> PushError:
        self._refusals.add(limit)
        return PushError(Errno.RATE_EXCEEDED, f"Too many {what} ({limit})", retry_after=wait)
