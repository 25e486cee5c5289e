"""Where settings come from: defaults, the file, environment variables, flags.

Rule: a later source replaces an earlier one. A value that cannot be used is one line that names its
place and does not show it.
"""

import argparse
import re
import tomllib
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

from channelstats.settings.options import (
    OPTIONS,
    PREFIX,
    Option,
    OptionGroup,
    SettingError,
    Settings,
)

TOML_FILE: Final = "channelstats.toml"
"""Read from the data folder when no other file is named."""

LOCAL_VARIABLE: Final = f"{PREFIX}LOCALSTORAGE"
LOCAL_STORE: Final = "dynamodb://us-east-1?endpoint=http://localhost:8000"
"""The store where CHANNELSTATS_LOCALSTORAGE is `True` and no other one is given."""

CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
OTHER_VARIABLES: Final = (
    CONFIG_VARIABLE,
    LOCAL_VARIABLE,
    f"{PREFIX}READ_TOKEN",
    f"{PREFIX}POST_TOKEN",
    f"{PREFIX}SERVE_TOKEN",
    f"{PREFIX}MAIL_PASSWORD",
)
"""Variables of the program that are no settings."""

_BY_NAME: Final = {option.name: option for option in OPTIONS}
_OTHER_NAMES: Final = {
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
"""What options are called elsewhere."""

_HARMLESS: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}")
"""A name that may be repeated in a message: a token that was put in its place does not match."""
_TOML_ERROR: Final = re.compile(r"(?P<what>.*) \(at (line (?P<line>\d+), .*|end of document)\)")


def load(flags: Mapping[str, str | None], environ: Mapping[str, str]) -> Settings:
    """Read and merge every source. `flags` are texts by the name of their option; `config` names
    another file.

    :raises SettingError: an unreadable file, an unknown option, a value that cannot be used
    """
    stronger: dict[str, tuple[str, str]] = {}
    for option in OPTIONS:
        for place, text in (
            (option.variable, environ.get(option.variable)),
            (option.flag, flags.get(option.name)),
        ):
            if text is not None:
                stronger[option.name] = text, place
    folder = Path(stronger["data"][0] if "data" in stronger else Settings().data).expanduser()
    named = flags.get("config") or environ.get(CONFIG_VARIABLE)
    path = Path(named).expanduser() if named else folder / TOML_FILE
    texts = {**_from_file(path, must_exist=bool(named)), **stronger}
    if environ.get(LOCAL_VARIABLE) == "True" and not texts.get("store", ("",))[0]:
        texts["store"] = LOCAL_STORE, LOCAL_VARIABLE
    values = {name: _parse(_BY_NAME[name], *text) for name, text in texts.items()}
    places = {name: place for name, (_, place) in texts.items()}
    # Every value comes from the parser of its own field.
    return Settings(places=places, **cast(dict[str, Any], values))


def nearest(name: str) -> str:
    """The option that somebody meant who wrote this; "" where there is none like it."""
    return _OTHER_NAMES.get(name) or next(iter(get_close_matches(name, _BY_NAME, 1)), "")


def add_flags(parser: argparse.ArgumentParser, groups: Collection[OptionGroup]) -> None:
    """Add a flag for each option; the help shows those of the `groups`."""
    for group in OptionGroup:
        is_shown = group in groups
        target = parser.add_argument_group(group) if is_shown else parser
        if group is OptionGroup.GENERAL:
            target.add_argument("--config", metavar="FILE", help="settings file (TOML)")
        for option in OPTIONS:
            if option.group is group:
                default = "" if option.default in ("", False) else f" [default: {option.default}]"
                about = f"{option.help}{default}" if is_shown else argparse.SUPPRESS
                target.add_argument(option.flag, metavar=option.value_type.metavar, help=about)


def _from_file(path: Path, *, must_exist: bool) -> dict[str, tuple[str, str]]:
    """The text of each option in the file, and where it is: PATH:LINE."""
    try:
        text = path.read_text("utf-8-sig")
        document = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        if must_exist:
            raise SettingError(f"{path}: there is no such file") from None
        return {}
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SettingError(f"{path}: it is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        match = _TOML_ERROR.fullmatch(str(error))
        line = (match and match["line"]) or len(text.splitlines())
        what = match["what"] if match else str(error)
        raise SettingError(f"{path}:{line}: not TOML: {what[:1].lower()}{what[1:]}") from None
    texts = {}
    for name, value in document.items():
        place = f"{path}:{_line_of(name, text)}"
        if name not in _BY_NAME:
            quoted = f" {name!r}" if _HARMLESS.fullmatch(name) else ""
            meant = f"; did you mean {near!r}?" if (near := nearest(name)) else ""
            raise SettingError(f"{place}: unknown setting{quoted}{meant}")
        texts[name] = _text_of(_BY_NAME[name], value, place), place
    return texts


def _line_of(name: str, text: str) -> int:
    """The line of a top-level name: tomllib does not say."""
    begin = re.compile(rf"""\s*(\[+\s*)?["']?{re.escape(name)}["']?\s*[].=]""")
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if begin.match(line)), 1)


def _text_of(option: Option, value: object, place: str) -> str:
    """A value of the file as a flag would have it."""
    if isinstance(value, str | int):
        return str(value)
    expected = "a text, a number, true or false"
    if option.value_type.is_list:
        if isinstance(value, list) and all(isinstance(member, str) for member in value):
            return ",".join(value)
        expected = "an array of texts"
    raise SettingError(f"{place}: {option.name}: expected {expected}")


def _parse(option: Option, text: str, place: str) -> object:
    try:
        return option.value(text)
    except ValueError as error:
        is_named = place in (option.flag, option.variable)
        about = place if is_named else f"{place}: {option.name}"
        value_type = option.value_type
        why = str(error) if value_type.explains else f"expected {value_type.expected}"
        # The ValueError may quote the text, so it must not be chained.
        raise SettingError(f"{about}: {why}") from None
