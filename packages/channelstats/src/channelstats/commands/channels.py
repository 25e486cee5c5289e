"""Commands that change channels in Slack: create-stats-channel and unarchive.

Rule: each can be run again; what is done already is skipped.
"""

from typing import Final

from channelstats import lookup
from channelstats.commands.context import CommandContext, Failure, argument, command, flag
from channelstats.credentials import Purpose
from channelstats.lookup import NotFound
from channelstats.sending.targets import stats_channel_name
from channelstats.settings import OptionGroup
from channelstats.slack.errors import SlackError, TokenRefused
from channelstats.slack.objects import whole
from channelstats.slack.web_api import MOST_INVITED, WebApi
from channelstats.tables import Tables
from channelstats.tables.directory import Channel
from channelstats.tables.items import batches

LONGEST_NAME: Final = 80
"""Letters of the name of a channel in Slack."""

# ── create-stats-channel ─────────────────────────────────────────────────────────────────────────


@command(
    argument(
        "names", nargs="+", metavar="NAME", help="channels to make NAME-stats for: names or IDs"
    ),
    flag("--dry-run", "say which; make none"),
    groups=(OptionGroup.REPORTS,),
)
async def create_stats_channel(context: CommandContext) -> int:
    async with context.tables() as tables:
        wanted = await _without_stats_channel(context, tables)
        if context.arguments.dry_run:
            for channel in wanted:
                print(f"#{stats_channel_name(channel.name)} would be made")
        elif wanted:
            async with context.web_api(Purpose.POST) as api:
                await _create_each(context, tables, api, wanted)
    return context.exit_code


async def _without_stats_channel(context: CommandContext, tables: Tables) -> list[Channel]:
    """The named channels that have no stats channel yet."""
    channels = await tables.channels.all()
    found = {}
    for name in context.arguments.names:
        try:
            channel = channels[await lookup.channel_id(tables, name)]
        except NotFound as error:
            context.complain(error)
            continue
        stats_name = stats_channel_name(channel.friendly_name)
        there = await tables.channels.named(stats_name)
        if there is not None and there.friendly_name == stats_name:
            context.say(f"#{stats_name} exists already")
        elif not channel.friendly_name or len(stats_name) > LONGEST_NAME:
            context.complain(f"#{stats_name}: a name has {LONGEST_NAME} letters at most")
        else:
            found[channel.slack_cid] = channel
    return list(found.values())


async def _create_each(
    context: CommandContext, tables: Tables, api: WebApi, wanted: list[Channel]
) -> None:
    for channel in wanted:
        name = stats_channel_name(channel.friendly_name)
        try:
            made = await api.create(name)
            # Stored before anything else can fail: the next weekly run sends there.
            created = whole(made.created) or 0
            stored = Channel(made.id, made.name, members=1, created=created, is_channel=True)
            await tables.channels.put([stored])
            purpose = f"Weekly reports on the channel {channel.name}"
            await api.set_purpose(made.id, purpose)
        except SlackError as error:
            context.complain(f"#{name}: {error}")
            if isinstance(error, TokenRefused):
                return
            continue
        context.say(f"#{made.name} made")


# ── unarchive ────────────────────────────────────────────────────────────────────────────────────


@command(
    argument("name", metavar="NAME", help="the channel: a name or an ID"),
    flag("--dry-run", "say how many would be invited; change nothing"),
    groups=(OptionGroup.REPORTS,),
)
async def unarchive(context: CommandContext) -> int:
    async with context.tables() as tables:
        cid = await lookup.channel_id(tables, context.arguments.name)
        channel = (await tables.channels.all())[cid]
        name, people = channel.name, await _last_members(tables, cid)
        if context.arguments.dry_run:
            if not channel.is_archived:
                raise Failure(f"#{name} is not archived, or was not when channels were last read")
            print(f"#{name} would be unarchived and {_people(len(people))} invited")
            return context.exit_code
        async with context.web_api(Purpose.POST) as api:
            try:
                await _bring_back(context, api, cid, name, people)
            except SlackError as error:
                raise Failure(f"#{name}: {error}") from None
    return context.exit_code


async def _last_members(tables: Tables, cid: str) -> list[str]:
    """The IDs of those who were in a channel when it was read last, without the deactivated. Slack
    does not know: archiving empties a channel.
    """
    users = await tables.users.all()
    stored = (await tables.bulk.get(cid) or "").split(",")
    gone = {uid for uid, user in users.items() if user.deleted}
    return [uid for uid in stored if uid and uid not in gone]


async def _bring_back(
    context: CommandContext, api: WebApi, cid: str, name: str, people: list[str]
) -> None:
    """Unarchive a channel and invite people. Who cannot be invited does not keep the others out.

    :raises SlackError: the channel cannot be unarchived or joined
    """
    refused = 0

    async def note(text: str) -> None:
        try:
            await api.note(cid, text)
        except SlackError as error:
            context.complain(f"#{name}: note: {error}")

    own = await api.own_id()
    await api.unarchive(cid)
    context.say(f"#{name}: unarchived")
    await api.join(cid)
    missing = [uid for uid in people if uid != own]
    count = _people(len(missing))
    await note(f"This channel is back. Inviting {count} who were here.")
    for group in batches(missing, MOST_INVITED):
        why: object = "Slack refuses them"
        try:
            left = await api.invite(cid, group)
        except TokenRefused:
            raise
        except SlackError as error:
            left, why = len(group), error
        else:
            context.say(f"#{name}: invited {_people(len(group) - left)}")
        if left:
            context.complain(f"#{name}: {_people(left)} not invited: {why}")
        refused += left
    await note(f"{len(missing) - refused:,} of {count} invited.")


def _people(number: int) -> str:
    return f"{number:,} {'person' if number == 1 else 'people'}"
