"""When to order a certificate, and when to try again after a failure.

Times are seconds since the epoch.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from keytables.retries import Backoff

RENEWAL_PART: Final = 3
"""Renew when one in so many parts of the life is left."""
LAST_PART: Final = 10
"""However late the directory suggests, renew when one in so many parts is left."""
SPREAD: Final = 0.02
"""Part of the life over which renewals are spread."""
SUGGESTION_TIMES: Final = (60.0, 86_400.0)
"""Bounds of the pause until the directory is asked again (RFC 9773 section 4.3.3)."""
RETRIES: Final = Backoff(120.0, 6 * 3600.0, jitter=0.2)
"""Pauses after failures. Let's Encrypt allows five failed validations of a name in an hour."""
MIN_PAUSE: Final = RETRIES.first / 2
"""Seconds after a failure before which no start of the service tries again."""


class WantedCertificate(Struct, frozen=True):
    """What the settings ask for. `ca`: PEM file, empty for the CAs that are trusted anyway."""

    names: tuple[str, ...]
    directory: str
    email: str = ""
    ca: str = ""
    eab_kid: str = ""
    eab_key: str = ""

    def __repr__(self) -> str:  # without the key
        return f"WantedCertificate({self.names}, {self.directory!r})"


class CertificateFacts(Struct, frozen=True):
    """What a certificate says. `is_placeholder`: see `files.placeholder`."""

    names: frozenset[str]
    begins: float
    ends: float
    serial: int
    is_placeholder: bool = False

    def renew_at(self, suggested: float | None = None) -> float:
        """`suggested`: what the directory says (ARI), if it does."""
        life = self.ends - self.begins
        if suggested is not None:
            return min(suggested, self.ends - life / LAST_PART)
        # The same after each restart, and another one for each certificate.
        jitter = self.serial % 1000 / 1000
        return self.ends - life * (1 / RENEWAL_PART + SPREAD * jitter)


class Failure(Struct, frozen=True):
    """The last of `count` failures in a row. `is_limit`: the directory said when to come back."""

    words: str
    at: float
    count: int
    retry_at: float
    wanted: str
    is_limit: bool = False


def failed(
    before: Failure | None, words: str, now: float, wanted: str, retry_after: float | None = None
) -> Failure:
    """`retry_after`: seconds, as the directory asks; `wanted`: see `wanted_key`."""
    count = 1 if before is None or before.wanted != wanted else before.count + 1
    pause = RETRIES.delay(count)
    if retry_after is not None:
        pause = max(pause, retry_after)
    return Failure(words, now, count, now + pause, wanted, retry_after is not None)


def at_start(failure: Failure | None) -> Failure | None:
    """Of a service that starts: what was wrong may have been put right, so it tries again soon,
    unless it would meet a rate limit.
    """
    if failure is None or failure.is_limit:
        return failure
    soon = min(failure.retry_at, failure.at + MIN_PAUSE)
    return Failure(failure.words, failure.at, failure.count, soon, failure.wanted)


def wanted_key(wanted: WantedCertificate) -> str:
    """Another one, another attempt: it changes with the settings that may have been wrong."""
    return hashlib.sha256(msgspec.json.encode(wanted)).hexdigest()


def reason_to_order(
    wanted: WantedCertificate,
    facts: CertificateFacts | None,
    issued_by: str,
    suggested: float | None,
    now: float,
) -> str:
    """Why a certificate is to be ordered now; empty if the present one serves on.

    `issued_by`: the directory that it is from.
    """
    if facts is None or facts.is_placeholder:
        return "there is none"
    if missing := [name for name in wanted.names if name not in facts.names]:
        return f"the present one is not for {listed(missing)}"
    if issued_by != wanted.directory:
        return "the present one is from another directory"
    if facts.renew_at(suggested) <= now:
        return "the present one is to be renewed"
    return ""


def listed(names: Sequence[str]) -> str:
    return ", ".join(names)
