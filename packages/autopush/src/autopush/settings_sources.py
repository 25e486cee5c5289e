"""Where settings come from: built-in defaults, ini files, environment variables, flags.

Rule: a later source replaces an earlier one, an empty text counts as not given, and whatever cannot
be understood stops the start with one line that names the place and shows no secret.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

from .settings import OPTIONS, Settings, StartupError
from .settings_kinds import Setting, port_number
from .settings_network import ENDPOINT_PORT
from .settings_storage import default_data_folder
from .settings_table import IniFile, Option

SEARCH_PLACES: Final = ("/etc/{}", "configs/{}", "~/.{}", "./.{}")
"""Where each ini file is looked for; every one that exists is read, later ones are stronger."""

OBSOLETE: Final = frozenset(
    {
        "apns_cert_file",
        "apns_enabled",
        "apns_key_file",
        "apns_sandbox",
        "disable_simplepush",
        "external_router",
        "fcm_auth",
        "fcm_enabled",
        "fcm_project_id",
        "fcm_senderid",
        "fcm_service_cred_path",
        "gcm_enabled",
        "max_message_size",
        "proxy_protocol",
        "s3_bucket",
        "senderid_expry",
        "wake_pem",
        "wake_server",
        "wake_timeout",
    }
)
"""Options of earlier versions that may still stand in a file; they do nothing."""

FILE_ALIASES: Final = {("serve", IniFile.ENDPOINT, "port"): "endpoint_port"}
"""Names that mean something else to a command that reads them in that file: both daemons of the
original have a `port`, and `serve` is both.
"""

NO_FOLDER: Final = Path("/nonexistent")
"""Stands for the data folder where there is none, and none is needed."""

QUIRKS: Final = {
    "ALLOW_CORS": "ALLOW_CORS switches CORS off, as it always did; NO_CORS is the better name"
}

_BY_NAME: Final = {option.name: option for option in OPTIONS}
_LINE: Final = re.compile(
    r"""
    -* (?P<name>[A-Za-z_][A-Za-z0-9_-]*)
    (?: \s*[=:]\s* (?: "(?P<double>[^"]*)" | '(?P<single>[^']*)' | (?P<plain>.*?) ) )?
    (?: \s+[#;].* )?
    """,
    re.VERBOSE,
)
_SPEAKABLE: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and what the operator should hear about how they were given."""

    settings: Settings
    warnings: tuple[str, ...]


@dataclass(slots=True)
class _Source:
    """What one source says."""

    values: dict[str, Setting] = field(default_factory=dict)

    def add(self, option: Option, text: str, where: str) -> None:
        text = text.strip()
        if not text:
            return
        try:
            value = option.kind.parse(text)
        except ValueError as error:
            shown = f"{len(text)} characters" if option.secret else repr(text[:80])
            why = f"expected {option.kind.expected}, got {shown}"
            if option.kind.explains:
                why = str(error)
            # The ValueError may quote the text, so it must not travel along as the cause.
            raise StartupError(f"{where}: {why}") from None
        if isinstance(value, tuple):
            value = (*cast(tuple[str, ...], self.values.get(option.name, ())), *value)
            if not value:
                return
        self.values[option.name] = value


def load(
    flags: Mapping[str, Sequence[str]],
    environ: Mapping[str, str] | None = None,
    *,
    command: str = "serve",
    named_files: Mapping[IniFile, str] | None = None,
    files: Iterable[IniFile] = tuple(IniFile),
    places: Sequence[str] = SEARCH_PLACES,
) -> Loaded:
    """Read every source and put the settings together.

    Args:
        flags: option name → texts given on the command line.
        environ: environment variables; those of this process when None.
        command: the command they are for.
        named_files: files named on the command line; read after the searched ones.
        files: which of the ini files the command reads.
        places: where to search, `{}` standing for the file's name.

    Raises:
        StartupError: an unreadable file, an unknown option, a value that cannot be used.
    """
    environ = os.environ if environ is None else environ
    warnings: list[str] = []
    values: dict[str, Setting] = {}
    for file in files:
        named = (named_files or {}).get(file)
        for path in (*(os.path.expanduser(p.format(file.file_name)) for p in places), named):
            if path is not None:
                values |= _read_file(path, command, file, warnings, must_exist=path is named)
    values |= _read_environment(environ, command, warnings)
    values |= _read_flags(flags)
    if command == "endpoint":
        values.setdefault("port", ENDPOINT_PORT)
        values.setdefault("endpoint_port", values["port"])
    settings = _put_together(command, values, environ)
    _check_together(settings)
    return Loaded(settings, tuple(warnings))


def _put_together(
    command: str, values: Mapping[str, Setting], environ: Mapping[str, str]
) -> Settings:
    # Every value was made by the parser of its own field, which the tests hold to the field's type.
    given = cast(dict[str, Any], values)
    if "data" in values:
        return Settings(command=command, **given)
    try:
        return Settings(command=command, data=default_data_folder(environ), **given)
    except StartupError:
        settings = Settings(command=command, data=NO_FOLDER, **given)
        if settings.needs_data_folder:
            raise
        return settings


def _read_file(
    path: str, command: str, file: IniFile, warnings: list[str], *, must_exist: bool
) -> dict[str, Setting]:
    try:
        with open(path, encoding="utf-8-sig") as lines:
            text = lines.read()
    except (FileNotFoundError, NotADirectoryError) as error:
        if must_exist:
            raise StartupError(f"cannot read {path}: {error.strerror}") from None
        return {}
    except OSError as error:
        raise StartupError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise StartupError(f"cannot read {path}: it is not UTF-8 text") from None
    source = _Source()
    for where, name, value in _ini_lines(path, text):
        name = FILE_ALIASES.get((command, file, name), name)
        option = _BY_NAME.get(name)
        if option is None:
            if name not in OBSOLETE:
                raise StartupError(f"{where}: {_unknown(name, _BY_NAME)}")
            warnings.append(f"{where}: the option {name} is obsolete and does nothing")
            continue
        if value is None:
            if not option.kind.is_flag:
                raise StartupError(f"{where}: {name} needs a value: {name} = {option.kind.metavar}")
            value = "true"
        if name in source.values and not option.kind.is_list:
            warnings.append(f"{where}: {name} was given before in this file; this line counts")
        source.add(option, value, f"{where}: {name}")
    return source.values


def _ini_lines(path: str, text: str) -> Iterator[tuple[str, str, str | None]]:
    """Place, option name and value of each line; the value of a bare name is None."""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        is_section = line.startswith("[") and line.endswith("]")
        if not line or line[0] in "#;" or is_section:
            continue
        where = f"{path}:{number}"
        match = _LINE.fullmatch(line)
        if match is None:
            raise StartupError(f"{where}: expected `option = value`")
        texts = match.group("double", "single", "plain")
        value = next((text for text in texts if text is not None), None)
        yield where, match["name"].replace("-", "_"), value


def _read_environment(
    environ: Mapping[str, str], command: str, warnings: list[str]
) -> dict[str, Setting]:
    source = _Source()
    known: set[str] = set()
    for option in OPTIONS:
        known.update(option.env)
        for variable in option.variables(command):
            text = environ.get(variable, "")
            if option.kind is port_number and text.startswith("tcp://"):
                warnings.append(f"{variable} names a Kubernetes service, not a port: ignored")
                continue
            source.add(option, text, f"environment variable {variable}")
            if option.name in source.values:
                if variable in QUIRKS:
                    warnings.append(QUIRKS[variable])
                break
    warnings.extend(
        f"environment variable {variable} is unknown; did you mean {near[0]}?"
        for variable in sorted(environ.keys() - known)
        if variable.startswith("AUTOPUSH_") and (near := get_close_matches(variable, known, 1, 0.8))
    )
    return source.values


def _read_flags(flags: Mapping[str, Sequence[str]]) -> dict[str, Setting]:
    source = _Source()
    for name, texts in flags.items():
        option = _BY_NAME[name]
        for text in texts:
            source.add(option, text, option.flag)
    return source.values


def _unknown(name: str, known: Iterable[str]) -> str:
    # A line that lost its name could be a key: only what looks like an option is repeated.
    told = f"unknown option {name!r}" if _SPEAKABLE.fullmatch(name) else "unknown option"
    near = get_close_matches(name.lower(), known, 1)
    return f"{told}; did you mean {near[0]!r}?" if near else told


def _check_together(settings: Settings) -> None:
    """What no option can be wrong about by itself.

    Raises:
        StartupError: two listeners on one port, or no port for the endpoint URLs.
    """
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
