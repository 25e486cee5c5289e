"""A test push to one subscription, followed through its states.

It takes the way of every other push, and what becomes of it is written to its receipt by whoever
knows it: the process that accepts it, the node that sends it and gets the ack. So it is the same
with several workers and nodes, and nothing is done for it but for that one message.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from autopush.api.push import TEST_TTL, PushHandler
from autopush.api.receipts import ReceiptHandler
from autopush.console.lookup import LookUp, LookUpError
from autopush.store.receipts import ReceiptStatus
from autopush.store.users import SIMPLEPUSH
from autopush.webpush.errors import PushError
from autopush.webpush.tokens import Endpoint, KeyRing, parse_message_id

EXPIRED: Final = f"It was not acked within its TTL of {TEST_TTL} seconds."
NO_ACK_SEEN: Final = (
    "It left the store, and no ack of it is on record: it or its subscription was deleted, or it "
    "was acked at a node that writes no receipts, which is one of an earlier version, or one with "
    "neither the option console nor receipts."
)
ELSEWHERE: Final = (
    "This process accepts no pushes. Use the console of `autopush endpoint`, which the same option "
    "turns on there."
)


@dataclass(eq=False)
class FollowedPushes:
    """`push`, `receipts`: None in a process that accepts no pushes."""

    look_up: LookUp
    ring: KeyRing
    push: PushHandler | None
    receipts: ReceiptHandler | None

    async def send(self, uaid: str, channel_id: str) -> dict[str, object]:
        """What `state` returns; a push that was refused has no message.

        :raises LookUpError: it cannot be tried here
        :raises KeytablesError: the store failed
        """
        if self.push is None:
            raise LookUpError(ELSEWHERE)
        record = await self.look_up.record(uaid)
        if record.router_type == SIMPLEPUSH:
            raise LookUpError("A SimplePush client gets version numbers: there is no test of it")
        try:
            message = await self.push.send_test(Endpoint(record.uaid, channel_id))
        except PushError as refusal:
            code = f"{refusal.status}, errno {int(refusal.errno)}"
            return {
                "state": "refused",
                "is_final": True,
                "times": {},
                "explanation": f"A push is refused with {code}: {refusal.message}",
            }
        return await self.state(message)

    async def state(self, text: str) -> dict[str, object]:
        """Where a message is now. `times`: milliseconds from its acceptance to each state.

        :raises LookUpError: it is no message of this service
        :raises KeytablesError: the store failed
        """
        try:
            message = parse_message_id(self.ring, text)
        except ValueError:
            raise LookUpError("That is not a message id of this service") from None
        if self.receipts is None:
            raise LookUpError(ELSEWHERE)
        receipt = await self.receipts.state(message)
        state, status = receipt["state"], receipt.get("status", ReceiptStatus.PENDING)
        times = dict(cast(Mapping[str, int], receipt.get("times", {})))
        received = times.pop("received", 0)
        is_final = status != ReceiptStatus.PENDING or "errored" in times or state == "unknown"
        explanation = ""
        if status == ReceiptStatus.GONE or state == "unknown":
            is_over = "expired" in times or self.look_up.clock() >= received / 1000 + TEST_TTL
            state, explanation = ("expired", EXPIRED) if is_over else ("gone", NO_ACK_SEEN)
        node = None
        if "transmitted" in times:
            node = await self.look_up.node_name(message.uaid)
        return {
            "message": text,
            "state": state,
            "is_final": is_final,
            "times": {name: at - received for name, at in times.items()},
            "code": receipt.get("code"),
            "node": node,
            "explanation": explanation,
        }
