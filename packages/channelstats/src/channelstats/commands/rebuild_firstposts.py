"""`channelstats rebuild-firstposts`: the table FirstPost anew from every stored message."""

from channelstats.commands.call import DONE, Call, Command
from channelstats.commands.writing import writing
from channelstats.ingest.first_posts import rebuild
from channelstats.settings import Group


async def _run(call: Call) -> int:
    counting = call.settings.counting
    async with call.tables() as tables, writing(call, tables):
        users = await tables.users.all()
        bots = [user.slack_uid for user in users.values() if user.is_bot]
        await rebuild(tables, counting, bots)
        found = len(await tables.first_posts.all())
    call.say(f"first posts of {found:,} people")
    return DONE


COMMAND = Command(
    "rebuild-firstposts",
    "find everybody's first post again in all stored messages",
    _run,
    groups=(Group.COUNTING,),
)
