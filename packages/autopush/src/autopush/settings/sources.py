"""Merges settings from defaults, files, environment variables and flags; the last source wins.

Rule: an empty text counts as not given. A value that cannot be used prevents the start with one
line that names its place; it shows neither a secret nor a name that could be a misplaced key.
"""

import argparse
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from configparser import ConfigParser, ParsingError
from difflib import get_close_matches
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

import orjson

from autopush.settings.addresses import EVERY_INTERFACE
from autopush.settings.combinations import check_together, store_warnings, warnings_together
from autopush.settings.declaration import (
    DAEMONS,
    OBSOLETE,
    ORIGINAL_DAEMONS,
    VARIABLES,
    IniFile,
    Option,
    Source,
    StartupError,
    reason_for_absence,
)
from autopush.settings.options import (
    ENDPOINT_PORT,
    OPTIONS,
    Settings,
    default_data_folder,
)
from autopush.settings.value_types import Value

SEARCH_PATHS: Final = ("/etc/{}", "configs/{}", "~/.{}", "./.{}")
"""Every one that exists is read; later ones are stronger."""
TOML_FILE: Final = "autopush.toml"
"""Read by every command, after the ini files."""

FILE_ALIASES: Final = {("serve", IniFile.ENDPOINT, "port"): "endpoint_port"}
"""(command, file, name) → option: both of the original's daemons have a `port`; `serve` is both."""

_BY_NAME: Final = {option.name: option for option in OPTIONS}
_WITHOUT_OPTION: Final = {
    variable: name
    for name in VARIABLES.keys() - _BY_NAME.keys()
    for variable in (f"AUTOPUSH_{name.upper()}", *VARIABLES[name])
}
"""Variables of the original → their option, which does not exist here."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HARMLESS: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}")
"""A name that may be shown in a message; a misplaced key does not match."""
_DESTINATION: Final = "option "
"""Prefix of options in the argparse namespace, so that arguments cannot clash."""


_Given = Iterator[tuple[Option, str, Source]]
"""Options, each with the text of its value and its place."""


class FileEntry(NamedTuple):
    """`value`: text, another TOML value, or None for an ini option without a value."""

    line: int
    name: str
    value: object


class Loaded(NamedTuple):
    settings: Settings
    warnings: tuple[str, ...]


def load(
    arguments: argparse.Namespace,
    environ: Mapping[str, str] | None = None,
    *,
    command: str = "serve",
    files: Sequence[IniFile] = tuple(IniFile),
    search_paths: Sequence[str] = SEARCH_PATHS,
) -> Loaded:
    """Read and merge every source.

    Args:
        arguments: the parsed flags of `add_flags`.
        environ: environment variables; None for those of this process.
        command: the command that the settings are for.
        files: the ini files that the command reads.
        search_paths: where to look, with `{}` for the name of the file.

    Raises:
        StartupError: an unreadable file, an unknown option, a value that cannot be used.
    """
    environ = os.environ if environ is None else environ
    warnings: list[str] = []
    parsed: dict[str, tuple[Value, Source]] = {}
    original_files: list[str] = []
    for given in (
        *_from_files(arguments, command, files, search_paths, original_files, warnings),
        _from_environment(environ, command, warnings),
        _from_flags(arguments, command),
    ):
        parsed |= _parse(given)
    values: dict[str, Value] = {"data": default_data_folder(environ)}
    values |= {name: value for name, (value, _) in parsed.items()}
    sources = {name: source for name, (_, source) in parsed.items()}
    if command == "endpoint":
        values.setdefault("port", ENDPOINT_PORT)
        values.setdefault("endpoint_port", values["port"])
    if original_files and command in ORIGINAL_DAEMONS:
        values.setdefault("host", EVERY_INTERFACE)
    # Each value comes from the parser of its field; tests check that against the field's type.
    settings = Settings(command=command, sources=sources, **cast(dict[str, Any], values))
    check_together(settings)
    warnings += warnings_together(settings)
    if command in ORIGINAL_DAEMONS:
        warnings += store_warnings(settings, original_files, environ)
    return Loaded(settings, tuple(warnings))


def _parse(given: _Given) -> dict[str, tuple[Value, Source]]:
    """The values of one source; a list that is given in several places is concatenated."""
    values: dict[str, tuple[Value, Source]] = {}
    for option, text, source in given:
        text = text.strip()
        if not text or (text == "null" and option.value_type.metavar == "JSON"):
            continue
        try:
            value = option.value_type.parse(text)
        except ValueError as error:
            shown = f"{len(text)} characters" if option.secret else repr(text[:80])
            why = f"expected {option.value_type.expected}, got {shown}"
            if option.value_type.explains:
                why = str(error)
            # The ValueError may quote the text, so it must not be chained.
            raise StartupError(f"{source.of(option.name)}: {why}") from None
        if isinstance(value, tuple) and option.name in values:
            members, source = values[option.name]
            value = (*cast(tuple[str, ...], members), *value)
        if value != ():
            values[option.name] = value, source
    return values


# ── Files ─────────────────────────────────────────────────────────────────────────────────────────


def _from_files(
    arguments: argparse.Namespace,
    command: str,
    files: Sequence[IniFile],
    search_paths: Sequence[str],
    original_files: list[str],
    warnings: list[str],
) -> Iterator[_Given]:
    """Every existing file, weakest first; the paths of ini files are added to `original_files`."""

    def texts(file_name: str, named: str | None) -> Iterator[tuple[str, str]]:
        for path in search_paths:
            path = os.path.expanduser(path.format(file_name))
            yield path, read_text(path, must_exist=False)
        if named:
            yield named, read_text(named, must_exist=True)

    for file in IniFile:
        named = getattr(arguments, f"config_{file}", None)
        if file in files:
            aliases = {
                old: new for (*of, old), new in FILE_ALIASES.items() if of == [command, file]
            }
            for path, text in texts(file.file_name, named):
                original_files += [path] if text else []
                yield _from_file(path, ini_entries(path, text), aliases, warnings)
        elif named:
            raise StartupError(f"--config-{file} is not a flag of `autopush {command}`")
    for path, text in texts(TOML_FILE, arguments.config):
        yield _from_file(path, toml_entries(path, text), {}, warnings)


def _from_file(
    path: str, entries: Sequence[FileEntry], aliases: Mapping[str, str], warnings: list[str]
) -> _Given:
    seen: set[str] = set()
    for line, name, value in entries:
        where = f"{path}:{line}"
        name = aliases.get(name, name)
        option = _BY_NAME.get(name)
        if option is None:
            if name not in OBSOLETE:
                raise StartupError(f"{where}: {_unknown_option(name, value)}")
            warnings.append(f"{where}: {name} {reason_for_absence(name)}")
            continue
        try:
            texts = option_texts(option, value)
        except ValueError as error:
            raise StartupError(f"{where}: {name}: {error}") from None
        if any(texts) and not option.value_type.is_list:
            if name in seen:
                warnings.append(f"{where}: {name} was given before in this file; this line counts")
            seen.add(name)
        for text in texts:
            yield option, text, Source("file", where)


def _unknown_option(name: str, value: object) -> str:
    if not _NAME.fullmatch(name):
        word = re.match(r"\w*", name)
        near = _closest(word[0].lower() if word else "", _BY_NAME)
        metavar = _BY_NAME[near].value_type.metavar if near else ""
        return NO_OPTION + (f"; did you mean `{near} = {metavar}`?" if near else "")
    reason = reason_for_absence(name)
    if reason is not None:
        return f"{name} {reason}"
    kind = "table" if isinstance(value, dict) else "option"
    if not _HARMLESS.fullmatch(name):
        return f"unknown {kind}"
    if near := _closest(name.lower(), _BY_NAME):
        return f"unknown {kind} {name!r}; did you mean {near!r}?"
    place = "; options are written before the first table" if kind == "table" else ""
    return f"unknown {kind} {name!r}{place}"


def _closest(name: str, known: Iterable[str], similarity: float = 0.6) -> str:
    return next(iter(get_close_matches(name, known, 1, similarity)), "")


# ── Environment variables ─────────────────────────────────────────────────────────────────────────


def _from_environment(environ: Mapping[str, str], command: str, warnings: list[str]) -> _Given:
    for option in OPTIONS:
        for variable in option.variables(command):
            text = environ.get(variable, "").strip()
            if option.value_type.metavar == "PORT" and text.startswith("tcp://"):
                warnings.append(f"{variable} names a Kubernetes service, not a port: ignored")
            elif text:
                if variable == "ALLOW_CORS":
                    warnings.append("ALLOW_CORS switches CORS off, as it always did; use NO_CORS")
                yield option, text, Source("environment", variable)
                break
    known = {variable for option in OPTIONS for variable in option.env}
    for variable in sorted(environ.keys() - known):
        if (name := _WITHOUT_OPTION.get(variable)) is not None:
            if environ[variable].strip() and command in DAEMONS:
                reason = reason_for_absence(name)
                warnings.append(f"environment variable {variable} is ignored: {name} {reason}")
        elif variable.startswith("AUTOPUSH_") and (near := _closest(variable, known, 0.8)):
            warnings.append(f"environment variable {variable} is unknown; did you mean {near}?")


# ── Flags ─────────────────────────────────────────────────────────────────────────────────────────


def add_flags(
    parser: argparse.ArgumentParser,
    *commands: str,
    files: Sequence[IniFile] = tuple(IniFile),
) -> None:
    """Add a flag for each option of the `commands` and for each file; `load` parses the values."""
    mine = [option for option in OPTIONS if not set(commands).isdisjoint(option.commands)]
    for title, options in groupby(mine, key=lambda option: option.group):
        group = parser.add_argument_group(title)
        for option in options:
            names = [option.short, option.flag] if option.short else [option.flag]
            variables = ", ".join(option.variables(commands[-1]))
            about = f"{option.help} [default: {option.default_shown}] [env: {variables}]"
            about, target = about.replace("%", "%%"), _DESTINATION + option.name
            if option.value_type.is_flag:
                add = partial(group.add_argument, dest=target, action="append_const")
                add(*names, const="true", help=about)
                add(option.off_flag, const="false", help=f"the opposite of {option.flag}")
            else:
                metavar = option.value_type.metavar
                group.add_argument(
                    *names, dest=target, action="append", metavar=metavar, help=about
                )
    group = parser.add_argument_group(
        "Files",
        "A file holds lines `option = value`; environment and flags are stronger. "
        "`autopush settings --sample` writes some.",
    )
    about = f"read the TOML file FILE too, after every {TOML_FILE} that is found"
    group.add_argument("--config", metavar="FILE", help=about)
    for file in files:
        about = f"read FILE too, after every {file.file_name} that is found"
        group.add_argument(f"--config-{file}", metavar="FILE", help=about)


def _from_flags(arguments: argparse.Namespace, command: str) -> _Given:
    for option in OPTIONS:
        for text in getattr(arguments, _DESTINATION + option.name, None) or ():
            if command not in option.commands:
                raise StartupError(f"{option.flag} is not an option of `autopush {command}`")
            yield option, text, Source("flag", option.flag)


def with_dashes(argv: Sequence[str], text_flags: Iterable[str] = ()) -> list[str]:
    """Accept option names as in files: `--max_data=1` becomes `--max-data=1`.

    Keys and the values of `text_flags` may begin with a dash, which argparse would take for a flag:
    they are joined to their flag with `=`.
    """
    joined = {option.flag for option in OPTIONS if option.secret} | {*text_flags}
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            word = name.replace("_", "-") + equals + value
            if word in joined and (key := next(rest, None)) is not None:
                word = f"{word}={key}"
        words.append(word)
    return words


# ── Syntax of files ───────────────────────────────────────────────────────────────────────────────

NO_OPTION: Final = "expected `option = value`"
_COMMENT: Final = re.compile(r"""((?>"[^"]*"|'[^']*'|.)*?)\s+[#;].*""")
"""A line with a comment at its end, which begins outside of quotes."""
_QUOTED: Final = re.compile(r"""(?P<quote>["'])(?P<text>((?!(?P=quote)).)*)(?P=quote)""")
_TOML_ERROR: Final = re.compile(r"(?P<what>.*) \(at (line (?P<line>\d+), .*|end of document)\)")
_KINDS: Final[Mapping[type, str]] = {dict: "a table", list: "an array"}


def read_text(path: str, *, must_exist: bool) -> str:
    """The text of a file; empty if it is missing and `must_exist` is false."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError:
        raise StartupError(f"cannot read {path}: it is not UTF-8 text") from None
    except OSError as error:
        # A folder without permission is an error: the file may be in it.
        if isinstance(error, (FileNotFoundError, NotADirectoryError)) and not must_exist:
            return ""
        raise StartupError(f"cannot read {path}: {error.strerror}") from None


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
    found = []
    for section in parser.sections():
        for key, value in cast(list[tuple[str, str | None]], parser.items(section)):
            number, _, name = key.partition(" ")
            quoted = _QUOTED.fullmatch(value or "")
            value = quoted["text"] if quoted else value
            found.append(FileEntry(int(number), _option_name(name), value))
    return sorted(found, key=lambda entry: entry.line)


def toml_entries(path: str, text: str) -> list[FileEntry]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StartupError(_toml_refusal(path, text, str(error))) from None
    return [
        FileEntry(_line_of(key, text), _option_name(key), value) for key, value in document.items()
    ]


def _toml_refusal(path: str, text: str, complaint: str) -> str:
    found = _TOML_ERROR.fullmatch(complaint)
    what = found["what"] if found else ""
    line = int((found and found["line"]) or max(1, len(text.splitlines())))
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

    Raises:
        ValueError: no value, or one of a wrong type; the text says what was expected.
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
