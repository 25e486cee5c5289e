"""When a call is tried again, and with which error it ends.

The rule: a call ends in time, and says the truth about itself. Once a try of it may have been
applied, no later failure says that it was not.

Pauses are random between nothing and a bound that doubles ("full jitter"), so that clients who were
refused together do not come back together.
"""

from collections.abc import Callable
from typing import Final

from keytables.dynamodb.connection import Lost, NotSent
from keytables.dynamodb.credentials import WAYS
from keytables.dynamodb.faults import Fault, Kind
from keytables.dynamodb.pool import Crowded
from keytables.errors import AccessRefused, KeytablesError, Throttled, Unavailable

__all__ = ["PATIENCE", "Course", "ServiceError", "try_seconds"]

PATIENCE: Final = 4.0
"""Seconds a call may take with all its tries."""
TRY: Final = 1.5
"""Seconds for one try."""
LEAST: Final = 0.05
"""Seconds that must be left for a try to be begun."""
TRIES: Final = 4
"""Tries of a call; a patient one has one for each second."""
BASE: Final = 0.025
"""Seconds; the bound of the first pause."""
CAP: Final = 1.0
"""Seconds; the bound of any pause."""


class ServiceError(Exception):
    """The database's verdict on a request, for the engine to judge.

    ``code`` is without the prefix of its namespace, ``body`` the whole answer. ``repeated``: an
    earlier try of this call may have been applied.
    """

    def __init__(self, code: str, message: str, body: bytes, *, repeated: bool = False) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.body = body
        self.repeated = repeated

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def try_seconds(patience: float) -> float:
    """The time of one try: a patient call asks for something that takes long."""
    return max(TRY, patience / TRIES)


class Course:
    """The failures of one call so far: each says when to try again, or raises how the call ends.

    ``now`` and ``deadline`` are seconds of one steady clock.
    """

    __slots__ = ("_deadline", "_failed", "_mended", "_random", "_tries", "_what", "repeated")

    def __init__(
        self,
        operation: str,
        table: str | None,
        *,
        deadline: float,
        patience: float,
        random: Callable[[], float],
    ) -> None:
        self._what = (operation, table)
        self._deadline = deadline
        self._tries = max(TRIES, int(patience))
        self._random = random
        self._failed = 0
        self._mended: set[str] = set()
        self.repeated = False
        """An earlier try may have been applied."""

    def first(self, remedy: str) -> bool:
        """Whether this remedy was not tried before; each is, once."""
        if remedy in self._mended:
            return False
        self._mended.add(remedy)
        return True

    def not_sent(self, failure: NotSent, now: float) -> float:
        """The pause in seconds. Raises Throttled or Unavailable."""
        if isinstance(failure, Crowded):
            raise self._throttled(str(failure)) from failure
        return self._again(self._unavailable(str(failure)), now)

    def lost(self, failure: Lost, now: float) -> float:
        """The pause in seconds. Raises Unavailable."""
        self.repeated = True
        if failure.stale and self.first("new connection"):
            return 0.0
        return self._again(self._unavailable(str(failure)), now)

    def answered(self, fault: Fault, now: float, *, mended: bool) -> float:
        """The pause in seconds; none if what the server complained of is mended.

        Raises Throttled, Unavailable, AccessRefused or ServiceError.
        """
        match fault.kind:
            case Kind.JUDGED:
                raise ServiceError(fault.code, fault.message, fault.body, repeated=self.repeated)
            case Kind.FORBIDDEN:
                raise AccessRefused(*self._what)
            case Kind.CREDENTIALS | Kind.SIGNATURE if mended:
                return 0.0
            case Kind.CREDENTIALS:
                raise self._unavailable(f"the credentials are refused ({fault.code}). {WAYS}")
            case Kind.SIGNATURE:
                raise self._unavailable(
                    f"the signature is refused ({fault.code}): the secret key does not belong to "
                    "the access key, or the region or host is not what the server takes itself for"
                )
            case Kind.THROTTLED:
                return self._again(self._throttled(fault.code), now)
            case Kind.BROKEN:
                self.repeated = True
        return self._again(self._unavailable(f"the server fails ({fault.code})"), now)

    def _again(self, error: KeytablesError, now: float) -> float:
        bound = min(CAP, BASE * 2.0**self._failed)
        self._failed += 1
        pause = self._random() * bound
        if self._failed >= self._tries or now + pause + LEAST > self._deadline:
            try:
                raise error
            finally:
                del error  # it refers to this frame, and would keep all that a call held
        return pause

    def _throttled(self, reason: str) -> KeytablesError:
        if self.repeated:
            return self._unavailable(f"an earlier try may have been applied; now {reason}")
        return Throttled(self._text(reason))

    def _unavailable(self, reason: str) -> Unavailable:
        return Unavailable(self._text(reason))

    def _text(self, reason: str) -> str:
        operation, table = self._what
        return f"{operation} on table {table!r}: {reason}" if table else f"{operation}: {reason}"
