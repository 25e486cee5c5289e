"""The commands: a module for each idea, with its arguments and what it does.

    context        what a command is, and what it is given
    import_        import-export, import-members, import-analytics, migrate
    sync           sync
    report         report
    serve, demo    the dashboard, over the store or over a made-up workspace
    send           send-weekly, notify
    channels       create-stats-channel, unarchive
    maintain       forget, rebuild-firstposts
    doctor         doctor

Rule: a command opens the store, does one thing and closes it; what it cannot do is a `Failure` of
one line.
"""

from typing import Final

from channelstats.commands import (
    channels,
    demo,
    doctor,
    import_,
    maintain,
    report,
    send,
    serve,
    sync,
)
from channelstats.commands.context import Command

COMMANDS: Final[tuple[Command, ...]] = (
    import_.import_export,
    sync.sync,
    report.report,
    serve.serve,
    send.send_weekly,
    send.notify,
    maintain.rebuild_firstposts,
    import_.import_members,
    import_.import_analytics,
    import_.migrate,
    maintain.forget,
    doctor.doctor,
    demo.demo,
    channels.create_stats_channel,
    channels.unarchive,
)
"""In the order in which `channelstats --help` lists them."""
