"""Executes the store requests of sessions.

Rule: a user agent is in the registry before its router record names this node, and storage is read
last. Another node that looks for it in between finds it here, and no message is missed.
"""

import asyncio
import hmac
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

from autopush.delivery.background import BackgroundWrites
from autopush.delivery.connected import ConnectedUser, Registry
from autopush.delivery.peers import Nodes
from autopush.delivery.placement import Placement
from autopush.protocol.effects import (
    NORMAL_CLOSURE,
    REPLACED,
    ChangeTable,
    DropReason,
    Identified,
    Identify,
    ReadStored,
    SetUrgency,
    StoreRequest,
    StoreResult,
    Subscribe,
    Unsubscribe,
)
from autopush.store import PushStore, UserRecord
from autopush.store.messages import Messages
from autopush.store.rotation import end_move, move_late_messages, move_user
from autopush.store.users import CONNECTING, RECORD_VERSION, SIMPLEPUSH
from autopush.store.versions import UserMessages
from autopush.telemetry.metrics import Counter
from autopush.webpush.identifiers import hash_secret, new_secret
from autopush.webpush.stored import StoredPage
from autopush.webpush.tokens import EndpointTokens
from keytables import TableNotFound, Throttled, Unavailable

CONNECT_ATTEMPTS: Final = 3


@dataclass(eq=False)
class StoreRequests:
    """`on_dropped`: called with the UAID of a user deleted at its hello. `already_connected`:
    counts hellos that raced with another connection of the user. `may_take`: whether an account may
    have a user of another one, see `AccountLimits`; None where there are none.
    """

    store: PushStore
    nodes: Nodes
    registry: Registry
    tokens: EndpointTokens
    background: BackgroundWrites
    placement: Placement
    _: KW_ONLY
    on_dropped: Callable[[str, DropReason], None]
    already_connected: Counter
    may_take: Callable[[str, str], bool] | None = None

    async def execute(self, user: ConnectedUser, request: StoreRequest) -> StoreResult:
        """:raises TableNotFound: the user's message table no longer exists
        :raises KeytablesError: the store failed
        """
        try:
            match request:
                case ReadStored():
                    return await self._read(user, request.after)
                case Identify():
                    return await self._identify(user, request)
                case Subscribe():
                    return await self._subscribe(user, request)
                case Unsubscribe():
                    await user.messages.remove_channel(user.uaid or "", request.channel_id)
                    return None
                case SetUrgency():
                    return await self._set_urgency(user, request.min_urgency)
                case ChangeTable():
                    return await self._change_table(user)
        except TableNotFound as error:
            if error.table == user.messages.name and await self.store.is_gone(error.table):
                raise
            raise Unavailable(str(error)) from error

    # --- hello ------------------------------------------------------------------------------------

    async def _identify(self, user: ConnectedUser, request: Identify) -> Identified:
        uaid = request.uaid
        superseded: list[UserRecord] = []
        table = self.store.versions if request.is_simplepush else self.store.current
        user.messages = table
        for _ in range(CONNECT_ATTEMPTS):
            known = None
            if uaid is not None:
                known = await self._find_user(user, uaid, table.router_type, request.secret_hash)
            if known is None:
                return self._new_user(user, table, request)
            record, messages = known
            uaid = record.uaid
            if not self._claim(user, uaid):  # a newer connection may own the record
                break
            superseded.append(record)
            connected_at = max(user.connected_at, record.connected_at + 1)
            user.is_on_record = self._must_record(user, record, messages, request)
            replaced: UserRecord | None = record
            if user.is_on_record:
                replaced = await self.store.users.connect(
                    record,
                    self.nodes.own_id,
                    connected_at,
                    request.wake_data,
                    request.min_urgency,
                    user.account,
                )
            if replaced is not None:
                # If the reply to a first try was lost, `replaced` is what that try wrote.
                await self._end_duplicates([*superseded, replaced], connected_at)
                return await self._known_user(user, replaced, messages, connected_at, request)
            self.already_connected.add()
        raise Throttled("the user connects in too many places at once")

    def _must_record(
        self, user: ConnectedUser, record: UserRecord, messages: UserMessages, request: Identify
    ) -> bool:
        """Not if the hello changes nothing that lasts longer than the connection, and who looks for
        the user finds it without a record.
        """
        return (
            self.placement.needs_record(record)
            or record.moved_from is not None
            or record.unread != 0
            or record.record_version < RECORD_VERSION
            or self.store.is_behind(messages)
            or self.store.users.is_changed_by(
                record, request.wake_data, request.min_urgency, user.account
            )
        )

    async def put_on_record(self, user: ConnectedUser, min_urgency: str | None = None) -> bool:
        """Record a connection that was not, for a change that only the user's latest connection may
        make; False if there is a newer one, or the user was dropped.
        """
        if user.is_on_record:
            return True
        record = await self.store.users.get(user.uaid or "")
        if record is None:
            return False
        replaced = await self.store.users.connect(
            record, self.nodes.own_id, user.connected_at, min_urgency=min_urgency
        )
        user.is_on_record = replaced is not None
        return user.is_on_record

    async def _find_user(
        self, user: ConnectedUser, uaid: str, router_type: str, secret_hash: str
    ) -> tuple[UserRecord, UserMessages] | None:
        """The user's record and table; drops a user without a table or of the other router type.

        None, and nothing changes, if the user has another secret, or is of another account.
        """
        record = await self.store.users.get(uaid)
        if record is None or record.router_type not in CONNECTING:
            return None
        if record.secret_hash and not _is_equal(record.secret_hash, secret_hash):
            return None
        if self.may_take is not None and not self.may_take(user.account, record.account):
            return None
        reason = DropReason.ROUTER_TYPE_CHANGED
        if record.router_type == router_type:
            messages = await self.store.messages_of(record)
            if messages is not None:
                return record, messages
            reason = DropReason.NO_MESSAGE_TABLE
        if not await self.store.drop_user(record):
            return None
        self.on_dropped(uaid, reason)
        if reason is DropReason.ROUTER_TYPE_CHANGED:
            previous = self.registry.find(uaid)
            if previous is not None:
                previous.disconnect(NORMAL_CLOSURE, REPLACED)
            await self._end_duplicates([record], user.connected_at)
        return None

    def _new_user(self, user: ConnectedUser, table: UserMessages, request: Identify) -> Identified:
        self.registry.release(user)
        user.is_recorded, user.is_on_record = False, True
        user.messages = table
        uaid = self.placement.new_uaid()
        self._claim(user, uaid)
        secret = new_secret() if request.wants_secret else None
        user.secret_hash = hash_secret(secret) if secret is not None else ""
        return Identified(uaid, user.connected_at, new=True, secret=secret)

    async def _known_user(
        self,
        user: ConnectedUser,
        record: UserRecord,
        messages: UserMessages,
        connected_at: int,
        request: Identify,
    ) -> Identified:
        if record.current_month != messages.name:  # it changed tables a moment ago
            changed = await self.store.messages_of(record)
            if changed is None:
                if await self.store.drop_user(record):
                    self.on_dropped(record.uaid, DropReason.NO_MESSAGE_TABLE)
                return self._new_user(user, self.store.current, request)
            messages = changed
        user.messages, user.secret_hash = messages, record.secret_hash
        if record.moved_from is not None:
            acked = self.registry.acked.undeleted(record.uaid)
            await end_move(self.store, record, self.nodes.own_id, connected_at, acked)
        return Identified(
            record.uaid,
            connected_at,
            new=False,
            reset=record.record_version < RECORD_VERSION,
            old_table=self.store.is_behind(messages),
            min_urgency=record.min_urgency,
        )

    def _claim(self, user: ConnectedUser, uaid: str) -> bool:
        """Enter the registry; False if it has disconnected meanwhile."""
        user.uaid = uaid
        if not user.is_connected:
            return False
        previous = self.registry.claim(uaid, user)
        if previous is not None:
            previous.disconnect(NORMAL_CLOSURE, REPLACED)
        return True

    async def _end_duplicates(self, records: Sequence[UserRecord], connected_at: int) -> None:
        """Close the user's older connections, so that their acks are stored before we read.

        `connected_at`: of the new one.
        """
        uaid = records[0].uaid
        owner = self.placement.owner_node(uaid)
        calls = [
            self.nodes.end_duplicate(node_id, uaid, record.connected_at)
            for node_id, record in {self.placement.node_of(each): each for each in records}.items()
            if node_id not in (None, owner) and self.nodes.may_have_duplicates(node_id)
        ]
        if owner is not None and self.nodes.may_have_duplicates(owner):
            calls.append(self.nodes.end_duplicate(owner, uaid, connected_at, or_older=True))
        if calls:
            await asyncio.gather(*calls)

    # --- afterwards -------------------------------------------------------------------------------

    async def _read(self, user: ConnectedUser, after: str | None) -> StoredPage:
        uaid, acked = user.uaid or "", self.registry.acked
        undeleted = acked.undeleted(uaid)
        page = await user.messages.read(uaid, after)
        if not page.messages:
            return page
        channels = page.channels
        messages = [stored for stored in page.messages if stored.row not in undeleted]
        again = [stored.row for stored in messages if acked.was_acked(uaid, stored.row)]
        if again:
            # Acked meanwhile; or the delete had no effect, as the row had expired by a clock ahead
            # of ours, or as a put took effect after it.
            self.background.delete_acked(user.messages, uaid, again)
            messages = [stored for stored in messages if stored.row not in again]
        listed = user.is_subscribed if channels is None else channels.__contains__
        if not all(listed(stored.notification.channel_id) for stored in messages):
            # The known list is from before the page: a register may have completed in between.
            read_later = await user.messages.channels(uaid)
            channels = read_later if isinstance(read_later, frozenset) else None
        return StoredPage(messages, page.last, channels, page.read_to, page.urgencies)

    async def _subscribe(self, user: ConnectedUser, request: Subscribe) -> str:
        uaid = user.uaid or ""
        if user.messages.router_type == SIMPLEPUSH:
            return await self._subscribe_simplepush(user, uaid, request)
        endpoint = self.tokens.url(uaid, request.channel_id, request.key)
        if user.is_recorded:
            await user.messages.add_channel(uaid, request.channel_id)
            return endpoint
        user.messages = self.store.current  # the connection may have been silent for months
        await asyncio.gather(
            user.messages.add_channel(uaid, request.channel_id),
            self.store.users.create(
                uaid,
                self.nodes.own_id,
                user.connected_at,
                user.messages.name,
                user.min_urgency,
                user.secret_hash,
                user.account,
            ),
        )
        user.is_recorded = True
        return endpoint

    async def _subscribe_simplepush(
        self, user: ConnectedUser, uaid: str, request: Subscribe
    ) -> str:
        if not user.is_recorded:
            await self.store.users.create_simplepush(
                uaid, self.nodes.own_id, user.connected_at, request.wake_data, user.account
            )
            user.is_recorded = True
        return self.tokens.simplepush_url(uaid, request.channel_id)

    async def _set_urgency(self, user: ConnectedUser, min_urgency: str) -> bool:
        if not user.is_recorded:  # the first register records it
            return True
        if not user.is_on_record:
            return await self.put_on_record(user, min_urgency)
        return await self.store.users.set_min_urgency(
            user.uaid or "", self.nodes.own_id, user.connected_at, min_urgency
        )

    async def _change_table(self, user: ConnectedUser) -> bool:
        uaid, old = user.uaid or "", user.messages
        if not isinstance(old, Messages) or not self.store.is_behind(old):
            return True
        if not await self.put_on_record(user):
            return False
        new = await move_user(
            self.store, uaid, old, node_id=self.nodes.own_id, connected_at=user.connected_at
        )
        if new is None:
            return False
        user.messages = new
        try:
            await move_late_messages(uaid, old, new, self.registry.acked.undeleted(uaid))
        except Throttled as error:
            # The user is on the new table already, which is not read before this is done: the next
            # connection starts with it.
            raise Unavailable(str(error)) from error
        return True


def _is_equal(recorded: str, sent: str) -> bool:
    """In constant time."""
    return hmac.compare_digest(recorded.encode(), sent.encode())
