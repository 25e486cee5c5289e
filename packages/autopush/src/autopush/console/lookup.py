"""One user agent, by its UAID or by an endpoint URL: what is known of it, and what can be done.

Rule: everything here is bounded, and nothing lists user agents.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from autopush.clock import Clock
from autopush.delivery.calls import Outcome
from autopush.delivery.diagnosis import (
    HEADLINES,
    EndpointUrl,
    Facts,
    judge,
    parse_endpoint_url,
    to_document,
)
from autopush.delivery.peers import Nodes
from autopush.delivery.placement import Placement
from autopush.net.node_auth import split_instance_url
from autopush.protocol.effects import NORMAL_CLOSURE, REPLACED
from autopush.store import PushStore, UserRecord
from autopush.store.inspection import MAX_COUNTED, MAX_MESSAGES, UserInspection, inspect_user
from autopush.store.users import SIMPLEPUSH
from autopush.store.versions import unread_pages
from autopush.webpush.errors import PushError
from autopush.webpush.identifiers import canonical_uaid
from autopush.webpush.tokens import Endpoint, EndpointTokens

MAX_CHANNELS: Final = 100
"""Subscriptions listed."""
MAX_TEXT: Final = 4096


class LookUpError(ValueError):
    """The text is for the operator."""


@dataclass(eq=False)
class LookUp:
    """`bridges`: the configured router types. `clock`: epoch seconds."""

    store: PushStore
    tokens: EndpointTokens
    nodes: Nodes
    placement: Placement
    bridges: Callable[[], frozenset[str]]
    key_hash: str
    clock: Clock

    async def find(self, text: str) -> dict[str, object]:
        """What `diagnose` says, and the pending messages without their contents.

        :raises LookUpError: the text is neither a UAID nor an endpoint URL of this service
        :raises KeytablesError: the store failed
        """
        url, endpoint = self._parse(text)
        uaid = endpoint.uaid
        now = self.clock()
        user = await inspect_user(
            self.store.engine,
            self.store.plan,
            uaid,
            endpoint.channel_id,
            key_hash=self.key_hash,
            now=now,
        )
        node = None
        if user is not None and user.record is not None:
            node = await self._ask_node(user.record)
        channels = _channels(user)
        if not url.token and user is not None and user.record is not None:  # a UAID alone
            is_simplepush = user.record.router_type == SIMPLEPUSH
            url = url._replace(is_simplepush=is_simplepush)
            endpoint = Endpoint(uaid, channels[0] if channels else endpoint.channel_id)
        facts = Facts(url=url, endpoint=endpoint, user=user, node=node, bridges=self.bridges())
        document = to_document(facts, now)
        headline = f"{HEADLINES[judge(facts).rule.arrival]}: {document['rule']}"
        if not url.token and user is not None and user.tables and not channels:
            headline, document["explanation"] = "No subscription", "Nothing can be pushed to it."
        document |= {
            "headline": headline,
            "uaid_in_logs": self.shown(uaid),
            "channels": channels[:MAX_CHANNELS],
            "channel_count": len(channels),
            "messages": [
                {**msgspec.to_builtins(message), "age": int(now - message.stored_at)}
                for table in (user.tables if user is not None else ())
                for message in table.pending.messages
            ][:MAX_MESSAGES],
            "messages_shown_at_most": MAX_MESSAGES,
        }
        for table in document["tables"]:  # type: ignore[attr-defined]
            del table["channels"]
        return document

    def _parse(self, text: str) -> tuple[EndpointUrl, Endpoint]:
        text = text.strip()
        if len(text) > MAX_TEXT:
            raise LookUpError(f"At most {MAX_TEXT} characters")
        if (uaid := canonical_uaid(text)) is not None:
            return EndpointUrl(False, "v1", ""), Endpoint(uaid, "")
        url = parse_endpoint_url(text)
        if url is None:
            raise LookUpError("That is neither a UAID (32 hex digits) nor an endpoint URL")
        try:
            return url, self.tokens.open(url.token)
        except PushError:
            raise LookUpError(
                "The token of this URL is damaged, or was made with a key that is not used here"
            ) from None

    async def _ask_node(self, record: UserRecord) -> Outcome | None:
        node_id = self.placement.node_of(record)
        if node_id is None:
            return None
        outcome = await self.nodes.find_connection(node_id, record.uaid)
        # An owner that has no connection says nothing of a record that names no node.
        is_recorded = record.node_id is not None or outcome is not Outcome.ABSENT
        return outcome if is_recorded else None

    async def drop(self, uaid: str) -> None:
        """Delete the user agent and close its connection: it gets a new UAID and subscribes again.

        :raises LookUpError: it has no record, or has connected again meanwhile
        :raises KeytablesError: the store failed
        """
        record = await self.record(uaid)
        if not await self.store.drop_user(record):
            raise LookUpError("It has connected again meanwhile: look it up once more")
        user = self.nodes.here.registry.find(record.uaid)
        if user is not None:
            user.disconnect(NORMAL_CLOSURE, REPLACED)
        elif (node_id := self.placement.node_of(record)) is not None:
            at = int(self.clock() * 1000)
            await self.nodes.end_duplicate(node_id, record.uaid, at, or_older=True)

    async def delete_messages(self, uaid: str) -> int:
        """Delete what is stored for it, at most `MAX_COUNTED` messages; returns how many.

        :raises LookUpError: it has no record
        :raises KeytablesError: the store failed
        """
        record = await self.record(uaid)
        messages = await self.store.messages_of(record)
        deleted = 0
        if messages is not None:
            async for page in unread_pages(messages, record.uaid):
                await messages.delete_all(record.uaid, [stored.row for stored in page])
                deleted += len(page)
                if deleted >= MAX_COUNTED:
                    break
        return deleted

    async def node_name(self, uaid: str) -> str | None:
        """Where it is connected, by its record: the URL of the node, and which worker it is."""
        record = await self.store.users.get(uaid)
        node_id = None if record is None else self.placement.node_of(record)
        if node_id is None:
            return None
        base = split_instance_url(node_id)[0] or node_id
        # The first worker has the console.
        number = 0 if node_id == self.nodes.own_id else self.nodes.sibling_urls.get(base)
        return base if number is None else f"worker {number}, {base}"

    def shown(self, uaid: str) -> str:
        """As logs show it."""
        return self.store.uaid_hash(uaid)

    async def record(self, uaid: str) -> UserRecord:
        """:raises LookUpError: there is none"""
        canonical = canonical_uaid(uaid)
        record = await self.store.users.get(canonical) if canonical else None
        if record is None:
            raise LookUpError("There is no such user agent (any more)")
        return record


def _channels(user: UserInspection | None) -> list[str]:
    if user is None or not user.tables or user.tables[0].channels is None:
        return []
    return sorted(user.tables[0].channels)
