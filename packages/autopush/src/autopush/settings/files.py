"""The syntax of configuration files: the ini files of the original, and TOML.

Rule: no message repeats text of a file, which could be a secret in the wrong place.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from configparser import ConfigParser, ParsingError
from itertools import pairwise
from typing import Final, NamedTuple, cast

import orjson

from autopush.settings.declaration import Option, StartupError

NO_OPTION: Final = "expected `option = value`"
_COMMENT: Final = re.compile(r"""((?>"[^"]*"|'[^']*'|.)*?)\s+[#;].*""")
"""A line with a comment at its end, which begins outside of quotes."""
_QUOTED: Final = re.compile(r"""(?P<quote>["'])(?P<text>((?!(?P=quote)).)*)(?P=quote)""")
_TOML_ERROR: Final = re.compile(r"(?P<what>.*) \(at (line (?P<line>\d+), .*|end of document)\)")
_BEGIN: Final = re.compile(r"""($|\#|\[|([\w\s.-]|"[^"]*"|'[^']*')+=)""")
"""What a line between statements of TOML looks like: empty, a comment, a table, or `key =`."""
_KINDS: Final[Mapping[type, str]] = {dict: "a table", list: "an array"}


class FileEntry(NamedTuple):
    """What stands on a line of a file. `value`: text, another value of TOML, or None for an option
    of an ini file without a value.
    """

    line: int
    name: str
    value: object


def read_text(path: str, *, must_exist: bool) -> str:
    """The text of a file; empty when it is missing and may be.

    Raises:
        StartupError: it cannot be read, or is not UTF-8.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError:
        raise StartupError(f"cannot read {path}: it is not UTF-8 text") from None
    except OSError as error:
        # A folder that may not be searched is not passed over: there could be a file in it.
        if isinstance(error, (FileNotFoundError, NotADirectoryError)) and not must_exist:
            return ""
        raise StartupError(f"cannot read {path}: {error.strerror}") from None


def _option_name(key: str) -> str:
    """`--max-data`, as the original allows it in its files, is `max_data`."""
    return key.lstrip("-").replace("-", "_")


# ── Ini ───────────────────────────────────────────────────────────────────────────────────────────


class _IniParser(ConfigParser):
    """Keeps line numbers and repeated options, which `ConfigParser` drops: keys are `LINE NAME`."""

    SECTCRE = re.compile(r"\[(?P<header>.+)\]$")

    def __init__(self) -> None:
        super().__init__(interpolation=None, allow_no_value=True, strict=False, default_section="")
        self.line = 0

    def optionxform(self, optionstr: str) -> str:
        return f"{self.line} {optionstr}"


def ini_entries(path: str, text: str) -> list[FileEntry]:
    """The options of an ini file, in the order of its lines.

    Raises:
        StartupError: a line has no name.
    """
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
    found = []
    for section in parser.sections():
        for key, value in cast(list[tuple[str, str | None]], parser.items(section)):
            number, _, name = key.partition(" ")
            quoted = _QUOTED.fullmatch(value or "")
            value = quoted["text"] if quoted else value
            found.append(FileEntry(int(number), _option_name(name), value))
    return sorted(found, key=lambda entry: entry.line)


# ── TOML ──────────────────────────────────────────────────────────────────────────────────────────


def toml_entries(path: str, text: str) -> list[FileEntry]:
    """The options of a TOML file; an option of JSON may be a table.

    Raises:
        StartupError: it is not TOML.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StartupError(_toml_refusal(path, text, str(error))) from None
    lines = _toml_lines(text)
    return [FileEntry(lines[key], _option_name(key), value) for key, value in document.items()]


def _toml_refusal(path: str, text: str, complaint: str) -> str:
    found = _TOML_ERROR.fullmatch(complaint)
    what = found["what"] if found else ""
    line = int((found and found["line"]) or max(1, len(text.splitlines())))
    if what.startswith(("Cannot", "Duplicate")):  # the rest is the name
        what = "an option or a table is given twice"
    elif what == "Invalid value":
        what = "invalid value; a text is written in quotes"
    return f"{path}:{line}: not TOML: {what[:1].lower()}{what[1:]}"


def _toml_lines(text: str) -> dict[str, int]:
    """The line on which each top-level name of a valid document first stands: tomllib does not say,
    but a statement, which may have several lines, is a document by itself.
    """
    lines: dict[str, int] = {}
    table = statement = ""
    begin = 1
    text_lines = text.replace("\r\n", "\n").split("\n")
    for number, (line, following) in enumerate(pairwise([*text_lines, ""]), 1):
        statement += line + "\n"
        if not _BEGIN.match(following.strip()):  # each try costs as much as the statement is long
            continue
        try:
            found = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        for name in found:
            if statement.lstrip().startswith("["):
                table = name
            lines.setdefault(table or name, begin)
        statement, begin = "", number + 1
    return lines


def option_texts(option: Option, value: object) -> list[str]:
    """A value of a file as the texts that the option's type parses; a list has one for each member.

    Raises:
        ValueError: it is a table, an array or a date where none can be, or is missing; the text
            says what was expected.
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
