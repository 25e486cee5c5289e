"""The settings of the service.

options        the table: every option is one row of the dataclass `Settings`
declaration    what a row says of an option
value_types    how the text of a value is parsed
files          the syntax of ini and TOML files
addresses      host names as this machine resolves them
original       what the original had: variables, obsolete options
combinations   options that exclude, need or outdo each other
sources        reads files, environment variables and flags, and merges them
reference      the table written out: sample files and the page of the documentation
"""

from autopush.settings.declaration import Option, StartupError
from autopush.settings.options import OPTIONS, Settings

__all__ = ["OPTIONS", "Option", "Settings", "StartupError"]
