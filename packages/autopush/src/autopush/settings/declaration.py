"""The declaration of an option, and the names and variables of the original autopush."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints

import orjson

from autopush.settings.value_types import BOOLEAN, FOLDER, TEXT, Value, ValueType

OBSOLETE: Final[Mapping[str, str]] = {
    "_no_sslcontext_cache": "",
    "apns_cert_file": "apns_creds",
    "apns_enabled": "apns_creds",
    "apns_key_file": "apns_creds",
    "apns_sandbox": "apns_creds",
    "external_router": "",
    "fcm_enabled": "fcm_creds",
    "fcm_project_id": "fcm_creds",
    "fcm_service_cred_path": "fcm_creds",
    "gcm_enabled": "senderid_list",
    "max_message_size": "max_data",
    "proxy_protocol": "proxy_protocol_port",
    "s3_bucket": "",
    "senderid_expry": "",
    "use_cryptography": "",
}
"""Obsolete options → their replacements. Accepted in files, with a warning."""

NEVER_OPTIONS: Final[Mapping[str, str]] = {
    "gcm_apikey": 'the key is written as senderid_list = {"SENDER ID": {"auth": "KEY"}}',
    "fcm_apikey": "the key is written as fcm_auth = KEY, with fcm_senderid = SENDER ID",
}
"""Names that only the original's documentation has → what to write instead."""

_NAMES: Final = """
    _no_sslcontext_cache adm_creds apns_creds auth_key auto_ping_interval auto_ping_timeout
    client_certs close_handshake_timeout connection_timeout crypto_key datadog_api_key
    datadog_app_key datadog_flush_interval disable_simplepush endpoint_hostname endpoint_port
    endpoint_scheme fcm_collapsekey fcm_creds fcm_dryrun fcm_enabled fcm_ttl fcm_version
    gcm_collapsekey gcm_dryrun gcm_enabled gcm_endpoint gcm_ttl hello_timeout human_logs key_hash
    log_level log_output max_connections max_data megaphone_api_token megaphone_api_url
    megaphone_poll_interval memusage_port message_read_throughput message_tablename
    message_write_throughput msg_limit no_aws no_table_rotation proxy_protocol_port resolve_hostname
    router_hostname router_port router_read_throughput router_ssl_cert router_ssl_key
    router_tablename router_write_throughput senderid_list sentry_dsn ssl_cert ssl_dh_param ssl_key
    statsd_host statsd_port storage_read_throughput storage_tablename storage_write_throughput
    sts_max_age use_cryptography wake_pem wake_server wake_timeout
"""

VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (name.upper(),) for name in _NAMES.split()},
    "aws_ddb_endpoint": ("AWS_LOCAL_DYNAMODB",),
    "firehose_stream_name": ("STREAM_NAME",),
    "hostname": ("LOCAL_HOSTNAME",),
    "no_cors": ("NO_CORS", "ALLOW_CORS"),
}
"""Option → its environment variables.

HOST and ENV are not read, as other programs use them; PORT and DEBUG only by the original daemons.
"""


def reason_for_absence(name: str) -> str | None:
    """Why a name of the original is not an option here; None for an unknown name."""
    if (instead := OBSOLETE.get(name)) is not None:
        return "is obsolete and does nothing" + (f"; see {instead}" if instead else "")
    if (instead := NEVER_OPTIONS.get(name)) is not None:
        return f"is no option: {instead}"
    return None


T = TypeVar("T")

DAEMONS: Final = ("serve", "connection", "endpoint")
ORIGINAL_DAEMONS: Final = ("connection", "endpoint")
"""Daemons that the original has too."""
NODES: Final = ("serve", "connection")
"""Commands that accept WebSockets."""
ENDPOINTS: Final = ("serve", "endpoint")
"""Commands that accept messages from application servers."""
TOOLS: Final = (
    *("maintain", "drop-user", "delete-uaids", "diagnose", "backup", "store", "restore", "check"),
    *("upgrade", "reload", "user"),
)
"""One-shot commands that work on the store."""
ALL_COMMANDS: Final = (*DAEMONS, *TOOLS)
"""Commands with all options of the store."""
SHELL_TOOLS: Final = ("send", "keys", "audit", "console-token")
"""Other one-shot commands."""

_VALUE_TYPES: Final = {bool: BOOLEAN, bool | None: BOOLEAN, str: TEXT, Path: FOLDER}
"""For fields without a `ValueType`."""


STARTUP_FAILED: Final = 3
"""Exit code of a program that a `StartupError` ended."""


class StartupError(Exception):
    """The service cannot start; the text is one line for the operator and holds no secret."""


class IniFile(StrEnum):
    """The three ini files of the original. Each may hold every option."""

    SHARED = "shared"
    CONNECTION = "connection"
    ENDPOINT = "endpoint"

    @property
    def file_name(self) -> str:
        return f"autopush_{self.value}.ini"


_FILES: Final = {NODES: IniFile.CONNECTION, ENDPOINTS: IniFile.ENDPOINT}
"""The daemons that have an option → the sample file that shows it."""


class Source(NamedTuple):
    """`kind`: default, file, environment or flag; `place`: PATH:LINE, a variable or a flag."""

    kind: str = "default"
    place: str = ""

    def of(self, option: str) -> str:
        """The option's place, for messages."""
        if self.kind == "file":
            return f"{self.place}: {option}"
        return f"environment variable {self.place}" if self.kind == "environment" else self.place


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    value_type: ValueType
    default: Value
    group: str
    help: str
    commands: tuple[str, ...]
    file: IniFile
    """The sample file that shows it; by default derived from `commands`."""
    bare_env: tuple[str, ...]
    """Variables without the prefix AUTOPUSH_, as in the original."""
    default_text: str = ""
    """Describes the default where the value itself would not help."""
    effective: Callable[[Any], Value] | None = None
    """The value in use, where the default is computed."""
    short: str = ""
    daemon_env: str = ""
    """A variable that only the original's daemons read, since other programs use it too."""
    secret: bool = False
    """Its value is never shown."""
    bridge: str = ""
    """The module of `autopush.bridges` that this option enables."""
    reloads: bool = False
    """Whether a running service takes another value at a reload; else it needs an upgrade."""
    reloads_if_set: bool = False
    """The same, from one value to another: with the first or without any it needs an upgrade."""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def off_flag(self) -> str:
        """The flag that negates a boolean."""
        return "--" + self.flag[5:] if self.name.startswith("no_") else "--no-" + self.flag[2:]

    @property
    def env(self) -> tuple[str, ...]:
        """Environment variables that every command reads, strongest first."""
        return (f"AUTOPUSH_{self.name.upper()}", *self.bare_env)

    def reloads_between(self, before: object, after: object) -> bool:
        return self.reloads or (self.reloads_if_set and bool(before) and bool(after))

    def variables(self, command: str) -> tuple[str, ...]:
        """The environment variables that this command reads, strongest first."""
        is_read = self.daemon_env and command in ORIGINAL_DAEMONS
        return (*self.env, *([self.daemon_env] if is_read else ()))

    @property
    def default_shown(self) -> str:
        """The default as an operator would write it, or in words where it is computed."""
        return self.default_text or show_value(self.default)


def show_value(value: Value) -> str:
    """A value as an operator would write it."""
    match value:
        case bool():
            return "on" if value else "off"
        case tuple():
            return ", ".join(value)
        case None:
            return "none"
        case Mapping():
            return orjson.dumps(value).decode()
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Group:
    """Options shown together, and the commands that most of them belong to."""

    title: str
    commands: tuple[str, ...] = DAEMONS
    reloads: bool = False
    """`Option.reloads` of most of them."""

    def of(self, *commands: str) -> "Group":
        """The same group, for options of other commands."""
        return replace(self, commands=commands)

    def option(self, default: T, about: str, **details: Any) -> T:
        """Declare a field of `Settings` as an option. `details`: other fields of `Option`."""
        metadata = {"commands": self.commands, "reloads": self.reloads, **details}
        if default in (None, "", ()):
            metadata.setdefault("default_text", "none")
        metadata |= {"default": default, "group": self.title, "help": about}
        return field(default=default, metadata=metadata, repr=not details.get("secret", False))


def declared_options(settings: type) -> tuple[Option, ...]:
    """The options of a dataclass, in field order."""
    hints = get_type_hints(settings, include_extras=True)
    rows = []
    for declared in fields(settings):
        if not (details := dict(declared.metadata)):
            continue
        hint = hints[declared.name]
        daemons = tuple(name for name in details["commands"] if name in DAEMONS)
        details.setdefault("file", _FILES.get(daemons, IniFile.SHARED))
        rows.append(
            Option(
                name=declared.name,
                value_type=_VALUE_TYPES.get(hint) or hint.__metadata__[0],
                bare_env=VARIABLES.get(declared.name, ()),
                **details,
            )
        )
    return tuple(rows)
