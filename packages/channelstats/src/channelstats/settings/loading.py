"""Where settings come from: a flag, an environment variable or a file, in this order.

Rule: what cannot be used is said in one line, with the place it stands in; its text is not shown.
"""

import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import msgspec

from channelstats.settings.known import Settings
from channelstats.settings.table import PREFIX, TABLE, Setting, Value

FILE: Final = "channelstats.toml"
"""Read from the data folder when no other file is named."""

LOCAL_VARIABLE: Final = f"{PREFIX}LOCALSTORAGE"
LOCAL_STORE: Final = "dynamodb://us-east-1?endpoint=http://localhost:8000"
"""The store where CHANNELSTATS_LOCALSTORAGE is `True` and no other one is given."""

CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
BESIDE_SETTINGS: Final = (
    CONFIG_VARIABLE,
    LOCAL_VARIABLE,
    f"{PREFIX}READ_TOKEN",
    f"{PREFIX}POST_TOKEN",
    f"{PREFIX}SERVE_TOKEN",
)
"""Variables of the program that are no settings."""

_MEANT: Final = {
    "backend": "store",
    "local": "store",
    "region": "store",
    "data_dir": "data",
    "default_tz_offset": "default_timezone",
    "read_token": "read_token_file",
    "post_token": "post_token_file",
    "token": "read_token_file",
    "timezone": "report_timezone",
    "subtypes": "count_subtypes",
}
"""What settings are called elsewhere."""


class SettingError(Exception):
    """A setting that cannot be used; one line that names it and says what was expected."""


def load(flags: Mapping[str, str | None], environment: Mapping[str, str]) -> Settings:
    """Settings of what was given. ``flags`` are texts by name; ``config`` names another file.

    :raises SettingError: one cannot be used
    """
    found = _found(flags, environment)
    values = {setting.name: _value(setting, *found[setting.name]) for setting in TABLE}
    return msgspec.convert(values, Settings)


def places(flags: Mapping[str, str | None], environment: Mapping[str, str]) -> dict[str, str]:
    """Where each setting came from, by name; those that nobody gave are left out."""
    found = _found(flags, environment)
    return {name: place for name, (place, text) in found.items() if text is not None}


def nearest(name: str) -> str:
    """The setting that somebody meant who wrote this; "" where there is none like it."""
    near = get_close_matches(name, [setting.name for setting in TABLE], 1)
    return _MEANT.get(name) or (near[0] if near else "")


def environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ


def _found(
    flags: Mapping[str, str | None], environment: Mapping[str, str]
) -> dict[str, tuple[str, str | None]]:
    """The place and the text of each setting; None where nobody gave one."""
    found = {setting.name: (setting.flag, flags.get(setting.name)) for setting in TABLE}
    for setting in TABLE:
        if found[setting.name][1] is None and setting.variable in environment:
            found[setting.name] = (setting.variable, environment[setting.variable])
    config = flags.get("config") or environment.get(CONFIG_VARIABLE)
    folder = Path(found["data"][1] or str(TABLE[0].default)).expanduser()
    path = Path(config).expanduser() if config else folder / FILE
    for name, text in _file(path, named=bool(config)).items():
        if found[name][1] is None:
            found[name] = (f"{name} in {path}", text)
    if not found["store"][1] and environment.get(LOCAL_VARIABLE) == "True":
        found["store"] = (LOCAL_VARIABLE, LOCAL_STORE)
    return found


def _value(setting: Setting, place: str, text: str | None) -> Value:
    if text is None or text == setting.default == "":
        return setting.default
    try:
        return setting.read(text)
    except ValueError as error:
        raise SettingError(f"{place}: {error}") from None


def _file(path: Path, *, named: bool) -> dict[str, str]:
    """The settings of a file as texts; none when there is no file and none was named."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if named:
            raise SettingError(f"{path}: there is no such file") from None
        return {}
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise SettingError(f"{path}: {error}") from None
    known = {setting.name: setting for setting in TABLE}
    for name in found:
        if name not in known:
            meant = f"; did you mean {near}?" if (near := nearest(name)) else ""
            raise SettingError(f"{path}: there is no setting {name!r}{meant}")
    return {name: _text(known[name], value, path) for name, value in found.items()}


def _text(setting: Setting, value: object, path: Path) -> str:
    """A value of the file as a flag would have it."""
    if isinstance(value, str | int):
        return str(value)
    if setting.many:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return ",".join(value)
        raise SettingError(f"{path}: {setting.name}: expected an array of texts")
    raise SettingError(f"{path}: {setting.name}: expected a text, a number, true or false")
