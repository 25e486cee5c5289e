"""The certificate of a cluster: one node orders it for all, and each serves it.

One row of the router table, under a key that is no UAID, has

    sealed      the state (see `files.AcmeState`), encrypted with the service's crypto key
    revision    grows with each change of it
    challenges  by token what to answer, so that each node can
    …           the attributes of the lease of the node that orders

Rule: only the holder of the lease writes.
"""

from typing import Final

import msgspec
from msgspec import Struct

from autopush.acme.files import AcmeState
from autopush.clock import Clock
from autopush.store.tables import CERTIFICATE_ROW
from autopush.webpush.tokens import InvalidToken, KeyRing
from keytables import TableHandle
from keytables.lease import Lease, LeaseLost

LEASE_SECONDS: Final = 120


class SharedState(Struct, frozen=True):
    """`state`: None if there is none, or none that the keys of this node open."""

    revision: int
    state: AcmeState | None
    challenges: dict[str, str]


class SharedCertificate:
    def __init__(self, router: TableHandle, keys: KeyRing, clock: Clock) -> None:
        self._table, self._keys = router, keys
        self.lease = Lease(router, (CERTIFICATE_ROW,), clock, seconds=LEASE_SECONDS)
        self._revision = 0

    async def read(self) -> SharedState:
        row = await self._table.get((CERTIFICATE_ROW,)) or {}
        sealed, revision, challenges = map(row.get, ("sealed", "revision", "challenges"))
        state = None
        if isinstance(sealed, str):
            try:
                state = msgspec.json.decode(self._keys.decrypt(sealed), type=AcmeState)
            except (InvalidToken, msgspec.MsgspecError):
                state = None
        self._revision = revision if isinstance(revision, int) else 0
        pairs = challenges.items() if isinstance(challenges, dict) else ()
        answers = {token: text for token, text in pairs if isinstance(text, str)}
        return SharedState(self._revision, state, answers)

    async def write(self, state: AcmeState) -> int:
        """Returns the new revision.

        :raises LeaseLost: another node orders
        """
        sealed = self._keys.encrypt(msgspec.json.encode(state))
        if not await self.lease.renew({"sealed": sealed, "revision": self._revision + 1}):
            raise LeaseLost
        self._revision += 1
        return self._revision

    async def publish(self, challenges: dict[str, str]) -> None:
        """:raises LeaseLost: another node orders"""
        if not await self.lease.renew({"challenges": dict(challenges) or None}):
            raise LeaseLost
