"""Merges settings from defaults, files, environment variables and flags; the last source wins.

Rule: an empty text counts as not given. A value that cannot be used prevents the start with one
line that names its place; it shows neither a secret nor a name that could be a misplaced key.
"""

import argparse
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

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
from autopush.settings.files import (
    NO_OPTION,
    FileEntry,
    ini_entries,
    option_texts,
    read_text,
    toml_entries,
)
from autopush.settings.options import (
    CONSOLE_PORT,
    ENDPOINT_PORT,
    HTTP_PORT,
    HTTPS_PORT,
    OPTIONS,
    Settings,
    default_data_folder,
)
from autopush.settings.value_types import Value

SEARCH_PATHS: Final = ("/etc/{}", "configs/{}", "~/.{}", "./.{}")
"""Every one that exists is read; later ones are stronger."""
SYSTEM_FILE: Final = "/etc/autopush/autopush.ini"
"""Of packages: read by every command that reads ini files, before all others."""
TOML_FILE: Final = "autopush.toml"
"""Read by every command, after the ini files."""

SERVE_ALIASES: Final = {IniFile.ENDPOINT: {"port": "endpoint_port"}}
"""Names in a file → options of `serve`, which is both of the original's daemons with a `port`."""

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
    system_file: str = SYSTEM_FILE,
) -> Loaded:
    """Read and merge every source.

    `arguments`: the parsed flags of `add_flags`; `files`: the ini files that the command reads;
    `search_paths`: where to look, with `{}` for the name of the file; `system_file`: read first.

    :raises StartupError: an unreadable file, an unknown option, a value that cannot be used
    """
    environ = os.environ if environ is None else environ
    reader = _Reader(arguments, command)
    parsed: dict[str, tuple[Value, Source]] = {}
    for given in (
        *reader.read_files(files, search_paths, system_file),
        reader.read_environment(environ),
        reader.read_flags(),
    ):
        parsed |= _parse(given)
    values: dict[str, Value] = {"data": default_data_folder(environ)}
    values |= {name: value for name, (value, _) in parsed.items()}
    sources = {name: source for name, (_, source) in parsed.items()}
    if command == "endpoint":
        values.setdefault("port", ENDPOINT_PORT)
    is_elsewhere = values.get("console_host") or values.get("console_ssl_key")
    if values.get("console") and (is_elsewhere or command == "endpoint"):
        values.setdefault("console_port", CONSOLE_PORT)
    if values.get("domain"):
        values.setdefault("host", "::" if socket.has_dualstack_ipv6() else EVERY_INTERFACE)
        values.setdefault("port", HTTPS_PORT)
        values.setdefault("http_port", HTTP_PORT)
    if reader.original_files and command in ORIGINAL_DAEMONS:
        values.setdefault("host", EVERY_INTERFACE)
    # Each value comes from the parser of its field; tests check that against the field's type.
    settings = Settings(command=command, sources=sources, **cast(dict[str, Any], values))
    check_together(settings)
    warnings = [*reader.warnings, *warnings_together(settings)]
    if command in ORIGINAL_DAEMONS:
        warnings += store_warnings(settings, reader.original_files, environ)
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
            got = f"{len(text)} characters" if option.secret else repr(text[:80])
            why = f"expected {option.value_type.expected}, got {got}"
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


class _Reader:
    """Reads the sources for one command."""

    def __init__(self, arguments: argparse.Namespace, command: str) -> None:
        self._arguments = arguments
        self._command = command
        self.warnings: list[str] = []
        self.original_files: list[str] = []
        """Paths of the ini files that are there."""

    # ── Files ─────────────────────────────────────────────────────────────────────────────────────

    def read_files(
        self, files: Sequence[IniFile], search_paths: Sequence[str], system_file: str
    ) -> Iterator[_Given]:
        """Every existing file, weakest first."""
        if files and (text := read_text(system_file, must_exist=False)):
            yield self._read_file(system_file, ini_entries(system_file, text), {})
        for file in IniFile:
            named = getattr(self._arguments, f"config_{file}", None)
            if file in files:
                aliases = SERVE_ALIASES.get(file, {}) if self._command == "serve" else {}
                for path, text in _texts(file.file_name, search_paths, named):
                    self.original_files += [path] if text else []
                    yield self._read_file(path, ini_entries(path, text), aliases)
            elif named:
                raise StartupError(f"--config-{file} is not a flag of `autopush {self._command}`")
        for path, text in _texts(TOML_FILE, search_paths, self._arguments.config):
            yield self._read_file(path, toml_entries(path, text), {})

    def _read_file(
        self, path: str, entries: Sequence[FileEntry], aliases: Mapping[str, str]
    ) -> _Given:
        seen: set[str] = set()
        for line, name, value in entries:
            where = f"{path}:{line}"
            name = aliases.get(name, name)
            option = _BY_NAME.get(name)
            if option is None:
                if name not in OBSOLETE:
                    raise StartupError(f"{where}: {_unknown_option(name, value)}")
                self.warnings.append(f"{where}: {name} {reason_for_absence(name)}")
                continue
            try:
                texts = option_texts(option, value)
            except ValueError as error:
                raise StartupError(f"{where}: {name}: {error}") from None
            if any(texts) and not option.value_type.is_list:
                if name in seen:
                    warning = f"{name} was given before in this file; this line counts"
                    self.warnings.append(f"{where}: {warning}")
                seen.add(name)
            for text in texts:
                yield option, text, Source("file", where)

    # ── Environment variables ─────────────────────────────────────────────────────────────────────

    def read_environment(self, environ: Mapping[str, str]) -> _Given:
        for option in OPTIONS:
            for variable in option.variables(self._command):
                text = environ.get(variable, "").strip()
                if option.value_type.metavar == "PORT" and text.startswith("tcp://"):
                    warning = f"{variable} names a Kubernetes service, not a port: ignored"
                    self.warnings.append(warning)
                elif text:
                    if variable == "ALLOW_CORS":
                        warning = "ALLOW_CORS switches CORS off, as it always did; use NO_CORS"
                        self.warnings.append(warning)
                    yield option, text, Source("environment", variable)
                    break
        self._warn_of_unknown(environ)

    def _warn_of_unknown(self, environ: Mapping[str, str]) -> None:
        known = {variable for option in OPTIONS for variable in option.env}
        for variable in sorted(environ.keys() - known):
            place = f"environment variable {variable}"
            if (name := _WITHOUT_OPTION.get(variable)) is not None:
                if environ[variable].strip() and self._command in DAEMONS:
                    reason = reason_for_absence(name)
                    self.warnings.append(f"{place} is ignored: {name} {reason}")
            elif variable.startswith("AUTOPUSH_") and (near := _closest(variable, known, 0.8)):
                self.warnings.append(f"{place} is unknown; did you mean {near}?")

    # ── Flags ─────────────────────────────────────────────────────────────────────────────────────

    def read_flags(self) -> _Given:
        for option in OPTIONS:
            for text in getattr(self._arguments, _DESTINATION + option.name, None) or ():
                if self._command not in option.commands:
                    raise StartupError(
                        f"{option.flag} is not an option of `autopush {self._command}`"
                    )
                yield option, text, Source("flag", option.flag)


def _texts(
    file_name: str, search_paths: Sequence[str], named: str | None
) -> Iterator[tuple[str, str]]:
    """Paths of the files of that name, and of the `named` one, with their texts."""
    for path in search_paths:
        is_of_system = os.path.isabs(path)
        path = os.path.expanduser(path.format(file_name))
        yield path, read_text(path, must_exist=False, is_named=is_of_system)
    if named:
        yield named, read_text(named, must_exist=True)


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


# ── Flags ─────────────────────────────────────────────────────────────────────────────────────────


def add_flags(
    parser: argparse.ArgumentParser, *commands: str, files: Sequence[IniFile] = tuple(IniFile)
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
