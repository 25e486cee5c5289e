"""The syntax of settings files: ini files as the original's, and TOML."""

import os
import pwd
import re
import tomllib
from collections.abc import Iterator, Mapping
from configparser import ConfigParser, ParsingError
from typing import Final, NamedTuple, cast

import orjson

from autopush.settings.declaration import Option, StartupError

NO_OPTION: Final = "expected `option = value`"
_COMMENT: Final = re.compile(r"""((?>"[^"]*"|'[^']*'|.)*?)\s+[#;].*""")
"""A line with a comment at its end, which begins outside of quotes."""
_QUOTED: Final = re.compile(r"""(?P<quote>["'])(?P<text>((?!(?P=quote)).)*)(?P=quote)""")
_TOML_ERROR: Final = re.compile(r"(?P<what>.*) \(at (line (?P<line>\d+), .*|end of document)\)")
_KINDS: Final[Mapping[type, str]] = {dict: "a table", list: "an array"}


class FileEntry(NamedTuple):
    """`value`: text, another TOML value, or None for an ini option without a value."""

    line: int
    name: str
    value: object


def read_text(path: str, *, must_exist: bool, is_named: bool = True) -> str:
    """The text of a file; empty if it is missing and `must_exist` is false.

    Root obeys a file that is not `is_named`, but found in the working directory or a home, only if
    nobody else may write it.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            if not is_named and os.geteuid() == 0:
                _check_owner(path, file.fileno())
            return file.read()
    except UnicodeDecodeError:
        raise StartupError(f"cannot read {path}: it is not UTF-8 text") from None
    except OSError as error:
        # A folder without permission is an error: the file may be in it.
        if isinstance(error, (FileNotFoundError, NotADirectoryError)) and not must_exist:
            return ""
        raise StartupError(f"cannot read {path}: {error.strerror}") from None


def _check_owner(path: str, descriptor: int) -> None:
    """:raises StartupError: others than root may write the file, or decide which one it is"""
    opened = os.fstat(descriptor)
    statuses = [opened, os.lstat(path)]  # the link too, if it is one
    if (folder := os.path.dirname(path)) not in ("", ".") and not os.path.isabs(path):
        statuses.append(os.lstat(folder))
    others = [each.st_uid for each in statuses if each.st_uid != 0]
    is_writable = opened.st_mode & 0o002 or (opened.st_mode & 0o020 and opened.st_gid != 0)
    if not others and not is_writable:
        return
    whose = f"belongs to the user {_user_name(others[0])}" if others else "may be written by others"
    raise StartupError(
        f"{path} {whose}, and this runs as root: it is not obeyed. Give it to root alone, remove "
        "it, or name it with --config"
    )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _option_name(key: str) -> str:
    """The original's files may write `--max-data` for `max_data`."""
    return key.lstrip("-").replace("-", "_")


class _IniParser(ConfigParser):
    """Keeps line numbers and repeated options, which `ConfigParser` drops: keys are `LINE NAME`."""

    SECTCRE = re.compile(r"\[(?P<header>.+)\]$")

    def __init__(self) -> None:
        super().__init__(interpolation=None, allow_no_value=True, strict=False, default_section="")
        self.line = 0

    def optionxform(self, optionstr: str) -> str:
        return f"{self.line} {optionstr}"


def ini_entries(path: str, text: str) -> list[FileEntry]:
    parser = _IniParser()

    def lines() -> Iterator[str]:
        yield "[options]"  # configparser wants a section, which the original's files do not have
        for parser.line, line in enumerate(text.splitlines(), 1):
            line = line.strip()  # so that an indented line does not continue the one before
            yield comment[1] if (comment := _COMMENT.fullmatch(line)) else line

    try:
        parser.read_file(lines(), path)
    except ParsingError as error:
        raise StartupError(f"{path}:{error.errors[0][0] - 1}: {NO_OPTION}") from None
    entries = []
    for section in parser.sections():
        for key, value in cast(list[tuple[str, str | None]], parser.items(section)):
            number, _, name = key.partition(" ")
            quoted = _QUOTED.fullmatch(value or "")
            value = quoted["text"] if quoted else value
            entries.append(FileEntry(int(number), _option_name(name), value))
    return sorted(entries, key=lambda entry: entry.line)


def toml_entries(path: str, text: str) -> list[FileEntry]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StartupError(_toml_refusal(path, text, str(error))) from None
    return [
        FileEntry(_line_of(key, text), _option_name(key), value) for key, value in document.items()
    ]


def _toml_refusal(path: str, text: str, complaint: str) -> str:
    match = _TOML_ERROR.fullmatch(complaint)
    what = match["what"] if match else ""
    line = int((match and match["line"]) or max(1, len(text.splitlines())))
    if what.startswith(("Cannot", "Duplicate")):  # the rest is the name
        what = "an option or a table is given twice"
    elif what == "Invalid value":
        what = "invalid value; a text is written in quotes"
    return f"{path}:{line}: not TOML: {what[:1].lower()}{what[1:]}"


def _line_of(name: str, text: str) -> int:
    """The first line that begins with a top-level name or its table, which tomllib does not report;
    a similar line in a multi-line string may be mistaken for it.
    """
    begin = re.compile(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[].=]""")
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if begin.match(line)), 1)


def option_texts(option: Option, value: object) -> list[str]:
    """The texts that the option's type parses; a list has one for each member.

    :raises ValueError: no value, or one of a wrong type; the text says what was expected
    """
    value_type = option.value_type
    match value:
        case None if value_type.is_flag:
            return ["true"]
        case None:
            raise ValueError(f"expected `{option.name} = {value_type.metavar}`")
        case bool():
            return [str(value).lower()]
        case str() | int() | float():
            return [str(value).strip()]
        case list() if value_type.is_list and all(isinstance(member, str) for member in value):
            return value
        case dict() if value_type.metavar == "JSON":
            try:
                return [orjson.dumps(value).decode()]
            except TypeError:
                raise ValueError("a number or a text in it cannot be used") from None
    got = _KINDS.get(type(value), "a date")
    raise ValueError(f"expected {value_type.expected}, got {got}")
