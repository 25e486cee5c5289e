"""The commands, a module each: its flags, what it reads, does and writes.

Rule: a command opens the store, does one thing and closes it; whatever it cannot do is a `Failure`
of one line.
"""

from typing import Final

from channelstats.commands import import_export, rebuild_firstposts, report
from channelstats.commands.call import Command

COMMANDS: Final[tuple[Command, ...]] = (
    import_export.COMMAND,
    report.COMMAND,
    rebuild_firstposts.COMMAND,
)
"""In the order in which `channelstats --help` lists them."""
