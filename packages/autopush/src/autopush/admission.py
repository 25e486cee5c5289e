"""Who may connect user agents and register, where the option `accounts_required` is set.

    the upgrade to a WebSocket    `admit_connection`, by the token of the request
    a socket that opens here      `open`: new, moved here by a sibling, or handed over by an upgrade
    a hello                       `admit`, by the account of its socket
    the registration API          `admit`: by the token for a new user, else by its record

Rule: whatever lets a user agent in asks `admit`, also for what another process or an earlier
request has let in: it may have had another setting, or have read the accounts at another time.
"""

import mmap
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from msgspec import Struct

from autopush.clock import Clock
from autopush.jobs import repeat
from autopush.limits import LimitRefusals
from autopush.net.http_messages import Request
from autopush.store.accounts import MAX_ACCOUNTS, Account
from autopush.telemetry import logs
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.identifiers import hash_secret
from keytables import KeytablesError

ACCOUNTS_INTERVAL: Final = 5.0
"""Seconds between two readings of the accounts, and so until a change counts in every worker."""
MIN_TOKEN: Final = 32
"""Characters. A shorter last segment of a path, such as `ws`, is not taken for a token."""
ACCOUNT_CHALLENGE: Final = (("WWW-Authenticate", 'Bearer realm="autopush"'),)

_CELL: Final = 8

_log: Final = logs.get(__name__)


def account_of(request: Request) -> str:
    """The identity of the account whose token is in the header Authorization, or else at the end
    of the path; "" without a token. Whether there is such an account, `AccountLimits.admit` says.
    """
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    is_bearer = scheme.lower() == "bearer"
    token = given.strip() if is_bearer else request.path.rstrip("/").rpartition("/")[2]
    return hash_secret(token) if len(token) >= MIN_TOKEN else ""


class OpenConnections:
    """How many connections each account has in each worker, by its number, in memory that the
    workers share; to be created before they are forked.

    Rule: a worker changes its own counts only, first, and then reads the total: of two that open a
    connection at the same time, one at least sees both.
    """

    def __init__(self, workers: int = 1) -> None:
        memory = mmap.mmap(-1, workers * MAX_ACCOUNTS * _CELL)
        self._cells = memoryview(memory).cast("B").cast("q")

    def add(self, worker: int, number: int, change: int) -> None:
        self._cells[worker * MAX_ACCOUNTS + number] += change

    def total(self, number: int) -> int:
        return sum(self._cells[number::MAX_ACCOUNTS])

    def clear(self, worker: int) -> None:
        """The worker has ended."""
        for cell in range(worker * MAX_ACCOUNTS, (worker + 1) * MAX_ACCOUNTS):
            self._cells[cell] = 0


class _Open(Struct):
    """Connections here of one account. `number`: the one it had when the first was opened."""

    number: int
    connections: int = 0


class AccountLimits:
    """The accounts whose user agents alone may connect and register, as they were read last.

    While they cannot be read, those known before count. `read`: all of them, by name; `total`: the
    connections of all workers, `worker` the index of this one; `end_sessions`: of those identities,
    which are of no account any more, or of one that has expired.
    """

    def __init__(
        self,
        refusals: LimitRefusals,
        read: Callable[[], Awaitable[Mapping[str, Account]]],
        total: OpenConnections | None = None,
        worker: int = 0,
        clock: Clock = time.time,
    ) -> None:
        self._refusals = refusals
        self._read = read
        self._total, self._worker = total or OpenConnections(), worker
        self._clock = clock
        self._known: dict[str, Account] | None = None
        """By identity, the hash of the token; without those that have expired."""
        self._owners: dict[str, str] = {}
        """The names of all accounts, by present and former identities."""
        self._open: dict[str, _Open] = {}
        """By identity."""
        self.end_sessions: Callable[[Collection[str]], Awaitable[None]] | None = None

    def admit(self, identity: str, address: str = "") -> Account:
        """The account of that identity. `address`: of the client, if known.

        :raises PushError: 401/123, `identity` is ""; 403/123, there is no such account; 503/202,
            the accounts could not be read yet
        """
        if self._known is None:
            raise PushError(Errno.RETRY, "The accounts could not be read yet")
        account = self._known.get(identity)
        if account is not None:
            return account
        self._refusals.add("accounts_required", address)
        if identity in self._owners:
            refusal = "The token of this user was renewed or has expired: ask for the present one"
            raise PushError(Errno.ACCOUNT_REQUIRED, refusal, status=403)
        if not identity:
            refusal = "This service is for users with a token, which ends the WebSocket URL"
            raise PushError(Errno.ACCOUNT_REQUIRED, refusal, headers=ACCOUNT_CHALLENGE)
        raise PushError(Errno.ACCOUNT_REQUIRED, "No user has this token", status=403)

    def admit_connection(self, identity: str, address: str = "", *, opening: int = 1) -> None:
        """`opening`: connections that do not count yet.

        :raises PushError: as `admit`; 429/203, too many of the account are open
        """
        account = self.admit(identity, address)
        limit = account.connections
        if limit and self._total.total(account.number) + opening > limit:
            self._refusals.add("account_connections", address)
            what = f"connections of this user: the limit is {limit} (account_connections)"
            raise PushError(Errno.RATE_EXCEEDED, f"Too many {what}")

    def may_take(self, identity: str, owner: str) -> bool:
        """Whether user agents of that account may connect with a UAID of the account `owner`, as
        its record says: one of nobody, or of nobody any more, goes to the next one who has it.
        """
        name = self._owners.get(owner)
        return owner in ("", identity) or name in (None, self._owners.get(identity))

    def open(self, identity: str, address: str = "") -> None:
        """Count a connection until `close`.

        :raises PushError: as `admit_connection`; then it does not count
        """
        number = self.admit(identity, address).number
        self._open.setdefault(identity, _Open(number))
        self._add(identity, 1)
        try:
            self.admit_connection(identity, address, opening=0)
        except PushError:
            self.close(identity)
            raise

    def close(self, identity: str) -> None:
        self._add(identity, -1)
        if not self._open[identity].connections:
            del self._open[identity]

    def _add(self, identity: str, change: int) -> None:
        here = self._open[identity]
        here.connections += change
        self._total.add(self._worker, here.number, change)

    async def load(self) -> None:
        """Read the accounts; end the sessions of those that were revoked.

        :raises KeytablesError: the store failed
        """
        accounts, now = (await self._read()).values(), self._clock()
        known = {each.token_hash: each for each in accounts if not each.has_expired(now)}
        self._known = known
        self._owners = {identity: each.name for each in accounts for identity in each.identities}
        revoked = [identity for identity in self._open if identity not in known]
        if revoked and self.end_sessions is not None:
            await self.end_sessions(revoked)

    async def run(self) -> None:
        """Load again and again, until cancelled."""

        async def load_or_log() -> None:
            try:
                await self.load()
            except KeytablesError as error:
                _log.warning("The accounts could not be read", reason=str(error))

        await repeat(load_or_log, lambda: ACCOUNTS_INTERVAL, "AccountLimits")
