"""Where settings come from: built-in defaults, ini files, environment variables, flags.

Rule: a later source replaces an earlier one, an empty text counts as not given, and a value that
cannot be used stops the start with one line that names its place and shows no secret.
"""

import argparse
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from configparser import ConfigParser, ParsingError
from difflib import get_close_matches
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

from autopush.settings.declaration import DAEMONS, IniFile, Option, StartupError
from autopush.settings.options import (
    ENDPOINT_PORT,
    NO_FOLDER,
    OPTIONS,
    Settings,
    default_data_folder,
)
from autopush.settings.original import OBSOLETE, VARIABLES, reason_for_absence
from autopush.settings.value_types import Value

SEARCH_PATHS: Final = ("/etc/{}", "configs/{}", "~/.{}", "./.{}")
"""Where each ini file is looked for; every one that exists is read, later ones are stronger."""

FILE_ALIASES: Final = {("serve", IniFile.ENDPOINT, "port"): "endpoint_port"}
"""Names that mean something else to a command that reads them in that file: both daemons of the
original have a `port`, and `serve` is both.
"""

_BY_NAME: Final = {option.name: option for option in OPTIONS}
_WITHOUT_OPTION: Final = {
    variable: name
    for name in VARIABLES.keys() - _BY_NAME.keys()
    for variable in (f"AUTOPUSH_{name.upper()}", *VARIABLES[name])
}
"""Variables of the original → the option they belong to, which is none here."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_OPTION: Final = "expected `option = value`"
_HARMLESS: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}")
"""A name that may be repeated in a message: a key that was put in its place does not match."""
_COMMENT: Final = re.compile(r"""((?>"[^"]*"|'[^']*'|.)*?)\s+[#;].*""")
"""A line with a comment at its end, which begins outside of quotes."""
_QUOTED: Final = re.compile(r"""(?P<quote>["'])(?P<text>((?!(?P=quote)).)*)(?P=quote)""")
_DESTINATION: Final = "option "
"""Begins the names of options in a namespace of argparse: those of arguments cannot clash."""


_Given = Iterator[tuple[Option, str, str]]
"""What a source gives: the option, the text of its value, and the place for messages."""


class Loaded(NamedTuple):
    """The settings, and warnings for the operator about how they were given."""

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
        arguments: the parsed flags that `add_flags` has added.
        environ: environment variables; those of this process when None.
        command: the command they are for.
        files: which of the ini files the command reads.
        search_paths: where to search, `{}` standing for the file's name.

    Raises:
        StartupError: an unreadable file, an unknown option, a value that cannot be used.
    """
    environ = os.environ if environ is None else environ
    warnings: list[str] = []
    values: dict[str, Value] = {"data": default_data_folder(environ)}
    places: dict[str, str] = {}
    for file in files:
        paths = [os.path.expanduser(path.format(file.file_name)) for path in search_paths]
        named = getattr(arguments, f"config_{file}")
        for path in [*paths, named] if named else paths:
            text = _read_text(path, must_exist=path is named)
            values |= _parse(_from_file(path, text, command, file, warnings), places)
    values |= _parse(_from_environment(environ, command, warnings), places)
    values |= _parse(_from_flags(arguments), places)
    if command == "endpoint":
        values.setdefault("port", ENDPOINT_PORT)
        values.setdefault("endpoint_port", values["port"])
    # Every value comes from the parser of its own field, which the tests hold to the field's type.
    settings = Settings(command=command, places=places, **cast(dict[str, Any], values))
    _check_together(settings)
    return Loaded(settings, tuple(warnings))


def _parse(given: _Given, places: dict[str, str]) -> dict[str, Value]:
    """The values of one source; a list has the members of all places that give it. `places` gets
    the place of each value that counts.
    """
    values: dict[str, Value] = {}
    for option, text, where in given:
        text = text.strip()
        if not text:
            continue
        try:
            value = option.value_type.parse(text)
        except ValueError as error:
            shown = f"{len(text)} characters" if option.secret else repr(text[:80])
            why = f"expected {option.value_type.expected}, got {shown}"
            if option.value_type.explains:
                why = str(error)
            # The ValueError may quote the text, so it must not be chained.
            raise StartupError(f"{where}: {why}") from None
        if isinstance(value, tuple):
            value = (*cast(tuple[str, ...], values.get(option.name, ())), *value)
        if value != ():
            values[option.name], places[option.name] = value, where
    return values


# ── Ini files ─────────────────────────────────────────────────────────────────────────────────────


def _read_text(path: str, *, must_exist: bool) -> str:
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


def _from_file(path: str, text: str, command: str, file: IniFile, warnings: list[str]) -> _Given:
    seen: set[str] = set()
    for number, name, value in _ini_lines(path, text):
        where = f"{path}:{number}"
        name = FILE_ALIASES.get((command, file, name), name)
        option = _BY_NAME.get(name)
        if option is None:
            if name not in OBSOLETE:
                raise StartupError(f"{where}: {_unknown_option(name)}")
            warnings.append(f"{where}: {name} {reason_for_absence(name)}")
            continue
        if value is None and not option.value_type.is_flag:
            metavar = option.value_type.metavar
            raise StartupError(f"{where}: {name} needs a value: {name} = {metavar}")
        value = "true" if value is None else value.strip()
        if value and not option.value_type.is_list:
            if name in seen:
                warnings.append(f"{where}: {name} was given before in this file; this line counts")
            seen.add(name)
        yield option, value, f"{where}: {name}"


class _IniParser(ConfigParser):
    """Keeps line numbers and repeated options, which `ConfigParser` drops: keys are `LINE NAME`."""

    SECTCRE = re.compile(r"\[(?P<header>.+)\]$")

    def __init__(self) -> None:
        super().__init__(interpolation=None, allow_no_value=True, strict=False, default_section="")
        self.line = 0

    def optionxform(self, optionstr: str) -> str:
        return f"{self.line} {optionstr}"


def _ini_lines(path: str, text: str) -> list[tuple[int, str, str | None]]:
    """Line number, name and text of each option; the text of a bare name is None."""
    parser = _IniParser()

    def lines() -> Iterator[str]:
        yield "[options]"  # configparser wants a section, which the original's files do not have
        for parser.line, line in enumerate(text.splitlines(), 1):
            line = line.strip()  # so that an indented line does not continue the one before
            yield comment[1] if (comment := _COMMENT.fullmatch(line)) else line

    try:
        parser.read_file(lines(), path)
    except ParsingError as error:
        raise StartupError(f"{path}:{error.errors[0][0] - 1}: {_NO_OPTION}") from None
    found = []
    for section in parser.sections():
        for key, value in cast(list[tuple[str, str | None]], parser.items(section)):
            number, _, name = key.partition(" ")
            name = name.lstrip("-").replace("-", "_")
            if not _NAME.fullmatch(name):
                raise StartupError(f"{path}:{number}: {_NO_OPTION}")
            quoted = _QUOTED.fullmatch(value or "")
            found.append((int(number), name, quoted["text"] if quoted else value))
    return sorted(found, key=lambda line: line[0])


def _unknown_option(name: str) -> str:
    reason = reason_for_absence(name)
    if reason is not None:
        return f"{name} {reason}"
    if not _HARMLESS.fullmatch(name):
        return "unknown option"
    near = _closest(name.lower(), _BY_NAME)
    return f"unknown option {name!r}" + (f"; did you mean {near!r}?" if near else "")


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
                yield option, text, f"environment variable {variable}"
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
    parser: argparse.ArgumentParser, command: str, files: Sequence[IniFile] = tuple(IniFile)
) -> None:
    """Add a flag for each option of `command`, and one for each ini file it reads.

    Values stay text here and are parsed together with those of the other sources.
    """
    mine = [option for option in OPTIONS if command in option.commands]
    for title, options in groupby(mine, key=lambda option: option.group):
        group = parser.add_argument_group(title)
        for option in options:
            names = [option.short, option.flag] if option.short else [option.flag]
            variables = ", ".join(option.variables(command))
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
        "Files", "An ini file holds lines `option = value`; environment and flags are stronger."
    )
    for file in files:
        about = f"read FILE too, after every {file.file_name} that is found"
        group.add_argument(f"--config-{file}", metavar="FILE", help=about)


def _from_flags(arguments: argparse.Namespace) -> _Given:
    for option in OPTIONS:
        for text in getattr(arguments, _DESTINATION + option.name, None) or ():
            yield option, text, option.flag


def with_dashes(argv: Sequence[str], text_flags: Iterable[str] = ()) -> list[str]:
    """`--max_data=1` as `--max-data=1`: option names may be written as in the files.

    A key may begin with a dash, which argparse would take for a flag: it is joined to its own flag.
    So are the values of `text_flags`.
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


# ── All together ──────────────────────────────────────────────────────────────────────────────────


def _check_together(settings: Settings) -> None:
    """What no option can be wrong about by itself.

    Raises:
        StartupError: no folder for data, two listeners on one port, or no port for endpoint URLs.
    """
    if settings.data is NO_FOLDER and settings.needs_data_folder:
        raise StartupError("no home folder to keep data in; name a folder with --data")
    names = ["port"] * (settings.has_sockets or settings.has_endpoint)
    names += ["endpoint_port"] * (settings.has_sockets and settings.has_endpoint)
    names += ["router_port"] * settings.has_sockets
    ports: dict[int, str] = {}
    for name in names:
        number = getattr(settings, name)
        if number and number in ports:
            raise StartupError(f"{name} and {ports[number]} are both {number}; each needs its own")
        ports[number] = name
    if settings.command == "connection" and not (settings.endpoint_url or settings.endpoint_port):
        raise StartupError("endpoint_port: a connection node must know the port of the endpoints")
