"""What a row of the table of options says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypedDict, TypeVar, Unpack, get_type_hints

import orjson

from autopush.settings.original import VARIABLES
from autopush.settings.value_types import BOOLEAN, FOLDER, TEXT, Value, ValueType

T = TypeVar("T")

DAEMONS: Final = ("serve", "connection", "endpoint")
ORIGINAL_DAEMONS: Final = ("connection", "endpoint")
"""Those that the original has too."""
NODES: Final = ("serve", "connection")
"""Commands that accept WebSockets."""
ENDPOINTS: Final = ("serve", "endpoint")
"""Commands that accept messages from application servers."""
TOOLS: Final = ("maintain", "drop-user", "delete-uaids", "diagnose", "backup", "restore", "check")
"""Commands that work on the store and end."""
ALL_COMMANDS: Final = (*DAEMONS, *TOOLS)
"""Commands that have a store."""
SHELL_TOOLS: Final = ("send", "keys")
"""Commands that need none."""

_VALUE_TYPES: Final = {bool: BOOLEAN, bool | None: BOOLEAN, str: TEXT, Path: FOLDER}
"""The types of fields that are not annotated with a `ValueType`."""


class StartupError(Exception):
    """The service cannot start; the text is one line for the operator and holds no secret."""


class IniFile(StrEnum):
    """The three ini files of the original. Each may hold every option."""

    SHARED = "shared"
    CONNECTION = "connection"
    ENDPOINT = "endpoint"

    @property
    def file_name(self) -> str:
        return f"autopush_{self.value}.ini"


_FILES: Final = {NODES: IniFile.CONNECTION, ENDPOINTS: IniFile.ENDPOINT}
"""The sample file of options of one kind of daemon, by the daemons that have the option."""


class Source(NamedTuple):
    """Where a value comes from. `kind`: default, file, environment or flag; `place`: PATH:LINE, the
    name of a variable, or a flag.
    """

    kind: str = "default"
    place: str = ""

    def of(self, option: str) -> str:
        """The option's place as messages name it."""
        if self.kind == "file":
            return f"{self.place}: {option}"
        return f"environment variable {self.place}" if self.kind == "environment" else self.place


class Details(TypedDict, total=False):
    """What only some options need to say."""

    default_text: str
    """Describes a default that is computed, where the value itself would not help."""
    effective: Callable[[Any], Value]
    """What the `Settings` make of the option, where the default is computed."""
    commands: tuple[str, ...]
    """The commands that have the option, where they are not those of the group."""
    file: IniFile
    """The sample file that shows it; follows from `commands` when not given."""
    short: str
    daemon_env: str
    """A variable that only the daemons of the original read, since other programs use it too."""
    secret: bool
    """Its value is never shown."""
    bridge: str
    """The module of `autopush.bridges` that a value of this option puts into service."""


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table. For the other fields see `Details`."""

    name: str
    value_type: ValueType
    default: Value
    group: str
    help: str
    commands: tuple[str, ...]
    file: IniFile
    bare_env: tuple[str, ...]
    """Variables without the prefix AUTOPUSH_, as in the original."""
    default_text: str = ""
    effective: Callable[[Any], Value] | None = None
    short: str = ""
    daemon_env: str = ""
    secret: bool = False
    bridge: str = ""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def off_flag(self) -> str:
        """The flag that switches a boolean off again."""
        return "--" + self.flag[5:] if self.name.startswith("no_") else "--no-" + self.flag[2:]

    @property
    def env(self) -> tuple[str, ...]:
        """Environment variables that every command reads, strongest first."""
        return (f"AUTOPUSH_{self.name.upper()}", *self.bare_env)

    def variables(self, command: str) -> tuple[str, ...]:
        """The environment variables that this command reads, strongest first."""
        is_read = self.daemon_env and command in ORIGINAL_DAEMONS
        return (*self.env, *([self.daemon_env] if is_read else ()))

    @property
    def default_shown(self) -> str:
        """The default as an operator would write it, or in words where it is computed."""
        return self.default_text or show_value(self.default)


def show_value(value: Value) -> str:
    """A value as an operator would write it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(value)
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return orjson.dumps(value).decode()
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Group:
    """Options that are shown together, and the commands that most of them belong to."""

    title: str
    commands: tuple[str, ...] = DAEMONS

    def option(self, default: T, about: str, **details: Unpack[Details]) -> T:
        """Declare a field of `Settings` as an option."""
        metadata = {"commands": self.commands, **details}
        metadata |= {"default": default, "group": self.title, "help": about}
        return field(default=default, metadata=metadata, repr=not details.get("secret", False))


def declared_options(settings: type) -> tuple[Option, ...]:
    """The rows of a dataclass, in its order."""
    hints = get_type_hints(settings, include_extras=True)
    rows = []
    for declared in fields(settings):
        if not (details := dict(declared.metadata)):
            continue
        hint = hints[declared.name]
        daemons = tuple(name for name in details["commands"] if name in DAEMONS)
        details.setdefault("file", _FILES.get(daemons, IniFile.SHARED))
        rows.append(
            Option(
                name=declared.name,
                value_type=_VALUE_TYPES.get(hint) or hint.__metadata__[0],
                bare_env=VARIABLES.get(declared.name, ()),
                **details,
            )
        )
    return tuple(rows)
