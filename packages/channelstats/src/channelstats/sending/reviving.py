"""An archived channel brought back, with the people who were in it.

Rule: archiving empties a channel; who was in it is known from the store alone. Whoever cannot be
invited does not keep the others out, and a second run invites those who are still missing.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import TypeAlias

import msgspec

from channelstats.slack.channel_admin import MOST_INVITED, ChannelAdmin
from channelstats.slack.errors import SlackError, TokenRefused
from channelstats.slack.posting import Posting
from channelstats.tables import Tables
from channelstats.tables.items import batches


class Step(msgspec.Struct, frozen=True):
    """Something that is done."""

    text: str

    def __str__(self) -> str:
        return self.text


class Failed(msgspec.Struct, frozen=True):
    """Something that is not."""

    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


Event: TypeAlias = Step | Failed


async def people_of(tables: Tables, cid: str) -> list[str]:
    """The IDs of those who were in a channel when it was read last, without the deactivated."""
    users = await tables.users.all()
    stored = (await tables.bulk.get(cid) or "").split(",")
    gone = {uid for uid, user in users.items() if user.deleted}
    return [uid for uid in stored if uid and uid not in gone]


class Reviving:
    """One channel."""

    def __init__(self, posting: Posting, care: ChannelAdmin) -> None:
        self._posting, self._care = posting, care

    async def run(self, cid: str, people: Sequence[str]) -> AsyncGenerator[Event, None]:
        """Bring it back, and report as it goes on.

        :raises SlackError: it cannot be brought back, or not be joined
        """
        own = await self._care.own_id()
        await self._care.unarchive(cid)
        yield Step("unarchived")
        await self._care.join(cid)
        missing = [uid for uid in people if uid != own]
        count = f"{len(missing):,} {_people(len(missing))}"
        if failed := await self._note(
            cid, f"This channel is back. Inviting {count} who were here."
        ):
            yield failed
        refused = 0
        for group in batches(missing, MOST_INVITED):
            try:
                left = await self._care.invite(cid, group)
            except TokenRefused:
                raise
            except SlackError as error:
                refused += len(group)
                yield Failed(f"{len(group):,} {_people(len(group))} not invited", str(error))
                continue
            refused += left
            yield Step(f"invited {len(group) - left:,} {_people(len(group) - left)}")
            if left:
                yield Failed(f"{left:,} {_people(left)} not invited", "Slack refuses them")
        invited = len(missing) - refused
        if failed := await self._note(cid, f"{invited:,} of {count} invited."):
            yield failed

    async def _note(self, cid: str, text: str) -> Failed | None:
        try:
            await self._posting.note(cid, text)
        except SlackError as error:
            return Failed("note", str(error))
        return None


def _people(number: int) -> str:
    return "person" if number == 1 else "people"
