"""A user agent that speaks SimplePush, and an application server's PUT to its endpoints."""

from collections.abc import Iterable
from urllib.parse import urlencode

from support.application_server import Answer, ApplicationServer
from support.user_agent import Message, UserAgent

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class SimplePushAgent(UserAgent):
    """One connection. A notification has a list of updates."""

    async def hello(self, uaid: str | None = None, **members: object) -> Message:
        await self.send(messageType="hello", uaid=uaid or "", channelIDs=[], **members)
        reply = await self.reply()
        self.uaid = reply.get("uaid", "")
        return reply

    async def updates(self) -> list[Message]:
        """The updates of the next notification."""
        notification = await self.notification()
        assert notification.keys() == {"messageType", "updates"}
        updates = notification["updates"]
        assert isinstance(updates, list)
        return updates

    async def update(self) -> Message:
        """The only update of the next notification."""
        [update] = await self.updates()
        assert isinstance(update, dict)
        return update

    async def ack(self, messages: Iterable[Message], code: int = 100) -> None:
        """Ack updates."""
        await super().ack(messages, code)


async def put(
    sender: ApplicationServer,
    endpoint: str,
    version: int | str | None = None,
    data: str | None = None,
    *,
    form: bool = True,
) -> Answer:
    """Tell an endpoint a version; `form`: say in a header that the body is one."""
    fields = {"version": version, "data": data}
    body = urlencode({name: value for name, value in fields.items() if value is not None})
    headers = FORM if form else {"Content-Type": ""}
    return await sender.request("PUT", endpoint, headers=headers, body=body.encode())
