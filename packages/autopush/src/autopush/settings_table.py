"""How an option is declared: its kind of value, its help, its commands, and the names it goes by.

Rule: an option is declared once, as a field of `autopush.settings.Settings`; files, environment,
flags, `--help`, sample files and the reference page are read off that declaration.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypedDict, TypeVar, Unpack, cast

from .settings_kinds import Kind, Setting

T = TypeVar("T")

DAEMONS: Final = ("serve", "connection", "endpoint")
NODES: Final = ("serve", "connection")
"""Commands that hold WebSockets."""
ENDPOINTS: Final = ("serve", "endpoint")
"""Commands that take messages from application servers."""
TOOLS: Final = ("maintain", "drop-user", "delete-uaids")
"""Commands that work on the store and end."""
EVERYONE: Final = (*DAEMONS, *TOOLS)


class StartupError(Exception):
    """The service cannot start; the text is one line for the operator and holds no secret."""


class IniFile(StrEnum):
    """The original's three ini files; every one may hold every option, each option has one home."""

    SHARED = "shared"
    CONNECTION = "connection"
    ENDPOINT = "endpoint"

    @property
    def file_name(self) -> str:
        return f"autopush_{self.value}.ini"


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table. `name` is the field's own name."""

    name: str
    kind: Kind
    group: str
    help: str
    default: Setting
    default_text: str = ""
    file: IniFile = IniFile.SHARED
    short: str = ""
    bare_env: tuple[str, ...] = ()
    daemon_env: tuple[str, ...] = ()
    secret: bool = False
    commands: tuple[str, ...] = DAEMONS

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def off_flag(self) -> str:
        """The flag that switches a boolean off again."""
        return "--" + self.flag[5:] if self.name.startswith("no_") else "--no-" + self.flag[2:]

    @property
    def env(self) -> tuple[str, ...]:
        """Environment variables, strongest first."""
        return (f"AUTOPUSH_{self.name.upper()}", *self.bare_env)

    def variables(self, command: str) -> tuple[str, ...]:
        """The environment variables that this command reads."""
        return (*self.env, *(self.daemon_env if command != "serve" else ()))


class Details(TypedDict, total=False):
    """What only some options need to say."""

    default_text: str
    """Describes a default that is worked out, where the value itself would not help."""
    file: IniFile
    short: str
    bare_env: tuple[str, ...]
    """Names of the original, from before `AUTOPUSH_<NAME>`."""
    daemon_env: tuple[str, ...]
    """Such names that `serve` does not read, since other programs use them too."""
    secret: bool
    commands: tuple[str, ...]
    """The commands that have the option."""


def option(default: T, kind: Kind, group: str, about: str, **details: Unpack[Details]) -> T:
    """Declare a field of the settings dataclass."""
    row = Option(
        name="", kind=kind, group=group, help=about, default=cast(Setting, default), **details
    )
    return field(default=default, metadata={"option": row}, repr=not row.secret)


def computed_option(
    default: Callable[[], T], kind: Kind, group: str, about: str, **details: Unpack[Details]
) -> T:
    """Declare a field whose default is worked out when it is needed."""
    row = Option(name="", kind=kind, group=group, help=about, default=None, **details)
    return field(default_factory=default, metadata={"option": row}, repr=not row.secret)
