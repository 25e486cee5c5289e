"""`channelstats rebuild-firstposts`: the table FirstPost anew from every stored message."""

from channelstats.commands.call import DONE, Call, Command
from channelstats.ingest.first_posts import rebuild


async def _run(call: Call) -> int:
    counting = call.settings.counting
    async with call.tables() as tables:
        users = await tables.users.all()
        bots = [user.slack_uid for user in users.values() if user.is_bot]
        await rebuild(tables, counting, bots)
        await tables.configuration.put_first_posts_counting(counting.name)
        found = len(await tables.first_posts.all())
    call.say(f"first posts of {found:,} people")
    return DONE


COMMAND = Command(
    "rebuild-firstposts", "find everybody's first post again in all stored messages", _run
)
