"""What can be set, where it may be set, and what it means.

The one rule: a setting is a row of one table; everything else about it follows from that row.

    values   what the text of a setting may be
    table    every setting, as data
    known    the settings of a run, understood
    loading  flags, environment, file

    kept_files   what the program makes for itself in the data folder: secrets, keys
"""

from channelstats.settings.known import Settings
from channelstats.settings.loading import FILE, SettingError, environment, load, places
from channelstats.settings.table import PREFIX, TABLE, Group, Setting

__all__ = [
    "FILE",
    "PREFIX",
    "TABLE",
    "Group",
    "Setting",
    "SettingError",
    "Settings",
    "environment",
    "load",
    "places",
]
