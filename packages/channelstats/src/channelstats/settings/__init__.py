"""The settings, in the same shape as those of autopush.

options  the table: every option is one row of the dataclass `Settings`; how values are parsed
sources  reads the file, environment variables and flags, and merges them
"""

from channelstats.settings.options import (
    HOST,
    OPTIONS,
    PREFIX,
    Option,
    OptionGroup,
    SettingError,
    Settings,
    is_loopback,
    show_value,
)
from channelstats.settings.sources import add_flags, load

__all__ = [
    "HOST",
    "OPTIONS",
    "PREFIX",
    "Option",
    "OptionGroup",
    "SettingError",
    "Settings",
    "add_flags",
    "is_loopback",
    "load",
    "show_value",
]
