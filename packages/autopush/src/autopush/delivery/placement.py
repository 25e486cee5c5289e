"""Which worker of a service owns a user: its socket, its requests and its rows in the store come
together in one process.

Where machines share a database, that is a matter of cost only: what a worker does for a user that
another one owns is right as well, as the router record says where the user is connected.

Where all nodes on an embedded store are workers of one service, the owner knows: a hello there need
not be recorded, and whoever looks for a user asks the owner if the record names no other worker. A
connection that could not be moved to its owner is recorded as ever, and so are all while another
service uses the store.
"""

from collections.abc import Callable, Sequence
from itertools import count
from zlib import crc32

from autopush.net.node_auth import split_instance_url
from autopush.store import PushStore, UserRecord
from autopush.webpush.identifiers import new_uaid


class Placement:
    """As seen from the worker `index` of `workers`.

    `node_ids`: of the workers, if the owner of a user may know where it is connected. `is_alone`:
    whether no other service uses the store.
    """

    def __init__(
        self,
        store: PushStore,
        index: int = 0,
        workers: int = 1,
        node_ids: Sequence[str] = (),
        is_alone: Callable[[], bool] | None = None,
    ) -> None:
        self._storage_key, self._engine = store.storage_key, store.engine
        self._index, self._workers = index, workers
        self._follows_parts = store.engine.parts >= workers
        self._node_ids = node_ids
        self._bases = [split_instance_url(each)[0] for each in node_ids]
        self.owns_all = workers == 1
        self._is_alone = is_alone if node_ids else None
        self._was_alone = self.is_alone()

    def owner(self, uaid: str) -> int:
        if self._workers == 1:
            return 0
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
        self.owns_all = True

    def is_alone(self) -> bool:
        """Whether no other service uses the store at this moment."""
        return self._is_alone is not None and self._is_alone()

    def look_for_others(self) -> bool:
        """Whether another service has come since the last look."""
        was_alone, self._was_alone = self._was_alone, self.is_alone()
        return was_alone and not self._was_alone

    # ── without a record ─────────────────────────────────────────────────────────────────────────

    def owner_node(self, uaid: str) -> str | None:
        """The node of the owner, if that one knows where the user is connected."""
        return self._node_ids[self.owner(uaid)] if self._node_ids else None

    def node_of(self, record: UserRecord) -> str | None:
        """The node to ask for a user; None if it is not connected."""
        return self.owner_node(record.uaid) if self._names_no_other(record) else record.node_id

    def needs_record(self, record: UserRecord) -> bool:
        """Whether a connection to this worker has to be recorded to be found."""
        is_owner = self.owner(record.uaid) == self._index
        return not (is_owner and self._names_no_other(record) and self.is_alone())

    def _names_no_other(self, record: UserRecord) -> bool:
        """Whether no other worker or service is on record. A node of an earlier start is none."""
        if record.node_id is None or not self._node_ids:
            return bool(self._node_ids)
        base = split_instance_url(record.node_id)[0]
        if base in self._bases:
            return base == self._bases[self.owner(record.uaid)]
        return self.is_alone()

    # ── new users ────────────────────────────────────────────────────────────────────────────────

    def unused_uaid(self) -> str:
        """The UAID of no user, in the part of the store that this worker has."""
        uaids = (f"{number:032x}" for number in count())
        return next(uaid for uaid in uaids if self.other_owner(uaid) is None)

    def new_uaid(self) -> str:
        """A UAID for a user that this worker owns."""
        uaid = new_uaid()
        while self.other_owner(uaid) is not None:
            uaid = new_uaid()
        return uaid
