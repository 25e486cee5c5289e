"""Which worker of a service owns a user: its socket, its requests and its rows in the store come
together in one process.

Rule: a matter of cost only. What a worker does for a user that another one owns is right as well.
"""

from itertools import count
from zlib import crc32

from autopush.store import PushStore
from autopush.webpush.identifiers import new_uaid


class Placement:
    """As seen from the worker `index` of `workers`."""

    def __init__(self, store: PushStore, index: int = 0, workers: int = 1) -> None:
        self._storage_key, self._engine = store.storage_key, store.engine
        self._index, self._workers = index, workers
        self._follows_parts = store.engine.parts >= workers

    @property
    def owns_all(self) -> bool:
        return self._workers == 1

    def owner(self, uaid: str) -> int:
        key = self._storage_key(uaid)
        number = self._engine.part_of(key) if self._follows_parts else crc32(key.encode())
        return number % self._workers

    def other_owner(self, uaid: str) -> int | None:
        """The owner, None if it is this worker."""
        if self.owns_all:
            return None
        owner = self.owner(uaid)
        return None if owner == self._index else owner

    def own_all(self) -> None:
        """From now on: the other workers are about to end."""
        self._workers = 1

    def unused_uaid(self) -> str:
        """The UAID of no user, in the part of the store that this worker has."""
        uaids = (f"{number:032x}" for number in count())
        return next(uaid for uaid in uaids if self.other_owner(uaid) is None)

    def new_uaid(self) -> str:
        """A UAID for a user that this worker owns."""
        uaid = new_uaid()
        while not self.owns_all and self.owner(uaid) != self._index:
            uaid = new_uaid()
        return uaid
