"""The commands: a module for each idea, with its arguments and what it does.

    context        what every command is given
    import_        import-export, import-members, import-analytics, migrate
    sync           sync
    report         report
    serve, demo    the dashboard, over the store or over a made-up workspace
    send           send-weekly, notify
    channels       create-stats-channel, unarchive
    maintain       forget, rebuild-firstposts
    doctor         doctor, and what Slack says; local_checks: what this machine says

Rule: a command opens the store, does one thing and closes it; what it cannot do is a `Failure` of
one line.
"""

from typing import Final

from channelstats.commands.channels import CREATE_STATS_CHANNEL, UNARCHIVE
from channelstats.commands.context import Command
from channelstats.commands.demo import DEMO
from channelstats.commands.doctor import DOCTOR
from channelstats.commands.import_ import IMPORT_ANALYTICS, IMPORT_EXPORT, IMPORT_MEMBERS, MIGRATE
from channelstats.commands.maintain import FORGET, REBUILD_FIRSTPOSTS
from channelstats.commands.report import REPORT
from channelstats.commands.send import NOTIFY, SEND_WEEKLY
from channelstats.commands.serve import SERVE
from channelstats.commands.sync import SYNC

COMMANDS: Final[tuple[Command, ...]] = (
    IMPORT_EXPORT,
    SYNC,
    REPORT,
    SERVE,
    SEND_WEEKLY,
    NOTIFY,
    REBUILD_FIRSTPOSTS,
    IMPORT_MEMBERS,
    IMPORT_ANALYTICS,
    MIGRATE,
    FORGET,
    DOCTOR,
    DEMO,
    CREATE_STATS_CHANNEL,
    UNARCHIVE,
)
"""In the order in which `channelstats --help` lists them."""
