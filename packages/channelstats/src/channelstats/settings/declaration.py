"""What a row of the table of settings says."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from channelstats.settings.value_types import Value, ValueType

T = TypeVar("T")

PREFIX: Final = "CHANNELSTATS_"


class SettingError(Exception):
    """A setting that cannot be used; one line that names it and says what was expected."""


class Source(NamedTuple):
    """Where a value comes from. `kind`: file, environment or flag; `place`: PATH:LINE, the name of
    a variable, or a flag.
    """

    kind: str
    place: str

    def of(self, option: str) -> str:
        """The option's place as messages name it."""
        return f"{self.place}: {option}" if self.kind == "file" else self.place


class OptionGroup(StrEnum):
    """What options are about; the help of a command shows the groups that matter to it."""

    GENERAL = "settings"
    COUNTING = "what counts"
    SLACK = "Slack"
    REPORTS = "reports"
    DASHBOARD = "dashboard"
    PRIVACY = "privacy"

    def option(self, value_type: ValueType, default: T, about: str) -> T:
        """Declare a field of `Settings` as an option."""
        metadata = {"value_type": value_type, "default": default, "group": self, "help": about}
        return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table: `data` is --data, CHANNELSTATS_DATA, and `data` in the file."""

    name: str
    value_type: ValueType
    default: Value
    group: OptionGroup
    help: str

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


def show_value(value: Value) -> str:
    """A value as an operator would write it."""
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
