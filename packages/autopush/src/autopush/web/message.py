"""`DELETE /m/{message_id}`: an application server takes a stored message back.

Rule: the id is the capability, so an id of ours is always answered 204, whether something was there
or not; only the very message of that id is deleted, never one that replaced it.
"""

from autopush import answers
from autopush.net.http_messages import HeaderBlock, Response
from autopush.protocol.effects import Row
from autopush.store import PushStore
from autopush.webpush.keyring import KeyRing
from autopush.webpush.message_id import parse_for_delete
from keytables import KeytablesError


class MessageHandler:
    """Deletes stored messages."""

    def __init__(self, store: PushStore, ring: KeyRing, block: HeaderBlock) -> None:
        self._store = store
        self._ring = ring
        self._block = block

    async def __call__(self, text: str) -> Response:
        """Delete it wherever it may be stored.

        :raises PushError: 400/102, not an id of ours; 503, the store failed
        """
        message = parse_for_delete(self._ring, text)
        row = Row(message.sort_key, message.text if message.topic else None)
        try:
            await self._store.remove(message.uaid, row)
        except KeytablesError as error:
            raise answers.storage_refusal(error) from error
        return Response(204, block=self._block)
