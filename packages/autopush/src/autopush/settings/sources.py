"""Where settings come from: built-in defaults, files, environment variables, flags.

Rule: a later source replaces an earlier one, an empty text counts as not given, and a value that
cannot be used stops the start with one line that names its place and shows no secret.
"""

import argparse
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

from autopush.settings.addresses import EVERY_INTERFACE
from autopush.settings.combinations import check_together, store_warnings, warnings_together
from autopush.settings.declaration import (
    DAEMONS,
    ORIGINAL_DAEMONS,
    IniFile,
    Option,
    Source,
    StartupError,
)
from autopush.settings.files import (
    NO_OPTION,
    FileEntry,
    ini_entries,
    option_texts,
    read_text,
    toml_entries,
)
from autopush.settings.options import (
    ENDPOINT_PORT,
    OPTIONS,
    Settings,
    default_data_folder,
)
from autopush.settings.original import OBSOLETE, SUCCESSOR, VARIABLES, reason_for_absence
from autopush.settings.value_types import Value

SEARCH_PATHS: Final = ("/etc/{}", "configs/{}", "~/.{}", "./.{}")
"""Where each file is looked for; every one that exists is read, later ones are stronger."""
TOML_FILE: Final = "autopush.toml"
"""The file of newcomers, read by every command and after the ini files."""

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
_SUCCESSOR: Final = re.compile(r"AUTO(CONNECT|END)__(?P<name>[A-Z0-9_]+)")
"""Variables of autopush-rs."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HARMLESS: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}")
"""A name that may be repeated in a message: a key that was put in its place does not match."""
_DESTINATION: Final = "option "
"""Begins the names of options in a namespace of argparse: those of arguments cannot clash."""


_Given = Iterator[tuple[Option, str, Source]]
"""What a source gives: the option, the text of its value, and where it stands."""


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
    # Every value comes from the parser of its own field, which the tests hold to the field's type.
    settings = Settings(command=command, sources=sources, **cast(dict[str, Any], values))
    check_together(settings)
    warnings += warnings_together(settings)
    if command in ORIGINAL_DAEMONS:
        warnings += store_warnings(settings, original_files, environ)
    return Loaded(settings, tuple(warnings))


def _parse(given: _Given) -> dict[str, tuple[Value, Source]]:
    """The values of one source; a list has the members of all places that give it."""
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
    """Each file that there is, weakest first. `original_files` gets the paths of the ini files."""

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
        if (found := _SUCCESSOR.fullmatch(variable)) is not None and command in DAEMONS:
            same = SUCCESSOR.get(found["name"].lower())
            instead = f"; its option here is {same}" if same else ""
            warnings.append(f"environment variable {variable} of autopush-rs is ignored{instead}")
        elif (name := _WITHOUT_OPTION.get(variable)) is not None:
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
    """Add a flag for each option of one of the `commands`, and one for each file it reads.

    Values stay text here and are parsed together with those of the other sources.
    """
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
