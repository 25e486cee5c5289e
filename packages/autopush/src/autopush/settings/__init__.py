"""The settings of the service.

options      the table: every option is one row of the dataclass `Settings`
declaration  what a row says of an option; the variables and obsolete options of the original
value_types  how the text of a value is parsed
addresses    host names as this machine resolves them
combinations options that exclude, require or override each other
files        the syntax of ini and TOML files
sources      reads files, environment variables and flags, and merges them
reference    the table written out: sample files and the page of the documentation
"""

from autopush.settings.declaration import STARTUP_FAILED, Option, StartupError
from autopush.settings.options import OPTIONS, Settings

__all__ = ["OPTIONS", "STARTUP_FAILED", "Option", "Settings", "StartupError"]
