"""The settings, in the same shape as those of autopush.

options       the table: every option is one row of the dataclass `Settings`
declaration   what a row says of an option, and how its value is parsed
sources       reads the file, environment variables and flags, and merges them
"""

from channelstats.settings.declaration import PREFIX, Option, OptionGroup, SettingError, show_value
from channelstats.settings.options import OPTIONS, Settings
from channelstats.settings.sources import add_flags, load

__all__ = [
    "OPTIONS",
    "PREFIX",
    "Option",
    "OptionGroup",
    "SettingError",
    "Settings",
    "add_flags",
    "load",
    "show_value",
]
