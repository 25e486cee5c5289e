"""The commands, a module each: its flags, what it reads, does and writes.

Rule: a command opens the store, does one thing and closes it; whatever it cannot do is a `Failure`
of one line.
"""

from typing import Final

from channelstats.commands import (
    demo,
    doctor,
    forget,
    import_export,
    import_members,
    migrate,
    notify,
    rebuild_firstposts,
    report,
    send_weekly,
    serve,
    stats_channel,
    sync,
    unarchive,
)
from channelstats.commands.call import Command

COMMANDS: Final[tuple[Command, ...]] = (
    import_export.COMMAND,
    sync.COMMAND,
    report.COMMAND,
    serve.COMMAND,
    send_weekly.COMMAND,
    notify.COMMAND,
    rebuild_firstposts.COMMAND,
    import_members.COMMAND,
    migrate.COMMAND,
    forget.COMMAND,
    doctor.COMMAND,
    demo.COMMAND,
    stats_channel.COMMAND,
    unarchive.COMMAND,
)
"""In the order in which `channelstats --help` lists them."""
