"""Store URLs, and opening the engine that one names.

Rule: a URL with an unknown part is refused, with what was expected. An engine is imported only when
a store of its kind is opened.

    sqlite:///PATH                  one file on this machine; PATH is absolute, with or without its
                                    slash: sqlite:///var/lib/a and sqlite:////var/lib/a are the same
    dynamodb://REGION?OPTIONS       without a REGION, that of the AWS environment, else us-east-1
        endpoint=URL                a server in place of the region's: http://127.0.0.1:8000, or
                                    several of one database, separated by commas
        prefix=TEXT                 prefix of all table names
        connections=N               maximum number of connections to one server
        alternator=yes              the database is ScyllaDB: no time to live is set on tables
    postgresql://USER@HOST/DATABASE?OPTIONS
                                    the URL of libpq, with the parameters listed below, its
                                    environment (PG...), and passwords from its password file
        schema=NAME                 the schema that holds the tables; "keytables" without it
        connections=N               maximum number of connections
"""

import os
import re
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, unquote, urlencode

from keytables.clock_guard import ClockReading
from keytables.engine import Clock, Engine, OnFailure
from keytables.errors import Unavailable

MAX_CONNECTIONS: Final = 1000

FORMS: Final = (
    "sqlite:///PATH, dynamodb://REGION?endpoint=URL&prefix=TEXT "
    "or postgresql://USER@HOST/DATABASE?schema=NAME"
)
"""What the URL of a store looks like, for error texts."""

_OPTIONS: Final = ("endpoint", "prefix", "connections", "alternator")
_DYNAMODB: Final = re.compile(r"dynamodb://(?P<region>[a-z0-9-]*)/?(?:\?(?P<options>[^#]*))?")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_.-]{0,200}")
_POSTGRESQL: Final = re.compile(
    r"postgres(?:ql)?://(?P<place>(?:[^@/?#]*@)?[^@/?#]*(?:/[^@/?#]*)?)(?:\?(?P<options>[^#]*))?"
)
_PASSWORD: Final = re.compile(r"\b((?:ssl)?password)=[^&#]*", re.IGNORECASE)
_NO_CLIENT: Final = (
    "asyncpg is not installed: pip install 'keytables[postgresql]', or in a checkout: make extras"
)
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SETTINGS: Final = {
    "application_name": ("application_name", "PGAPPNAME"),
    "options": ("options", "PGOPTIONS"),
}
"""Parameters that are settings of a session, with the variable that has their default."""
_LIBPQ: Final = (
    *("host", "port", "dbname", "user", "password", "passfile", "service"),
    *("sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslcrl", "sslnegotiation"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version"),
    *("target_session_attrs", "krbsrvname", "gsslib"),
)
_SWITCH: Final = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class SqliteUrl:
    path: str


@dataclass(frozen=True, slots=True)
class DynamoUrl:
    region: str = ""
    endpoint: str | None = None
    prefix: str = ""
    connections: int = 50
    alternator: bool = False


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """``url``: for the client, without what is in the other fields; it may hold a password.
    ``settings``: of the sessions.
    """

    url: str = field(repr=False)
    schema: str = "keytables"
    connections: int = 10
    connect_timeout: float = 5.0
    settings: tuple[tuple[str, str], ...] = ()


StoreUrl: TypeAlias = SqliteUrl | DynamoUrl | PostgresUrl


def parse_store(text: str) -> StoreUrl:
    """Parse the URL of a store. Raises ValueError, with what was expected."""
    scheme, separator, rest = text.partition("://")
    if separator and scheme == "sqlite":
        return _sqlite(rest)
    if separator and scheme == "dynamodb":
        return _dynamodb(text)
    if separator and scheme in ("postgresql", "postgres"):
        return _postgresql(text)
    raise ValueError(f"a store is {FORMS}, not {_redacted(text)}")


async def open_engine(
    text: str,
    *,
    clock: Clock = time.time,
    wipe: bool = False,
    min_free_space: int = 0,
    first_reading: ClockReading | None = None,
    on_failure: OnFailure | None = None,
    own_parts: Collection[int] | None = None,
) -> Engine:
    """Open the store of a URL. Raises ValueError for a bad one, Unavailable if it cannot be opened.

    ``wipe``: deleted data is overwritten in the file. ``min_free_space``: bytes; with fewer on its
    disk the engine :attr:`is nearly full <Engine.is_nearly_full>`. ``first_reading``: of the
    clocks, by an earlier process of the same service, to notice that the wall clock was set before.
    ``own_parts``: of a store in several :attr:`parts <Engine.parts>`, those that this process
    opens at once and removes expired items of; the others are opened when they are needed first.
    None for all; numbers that the store does not have are ignored. (These four are for SQLite,
    ``first_reading`` for PostgreSQL too.) ``on_failure``: called for each failure of the
    database.
    """
    store = parse_store(text)
    if isinstance(store, SqliteUrl):
        from keytables.sqlite import open_sqlite  # noqa: PLC0415 - see the rule above

        return await open_sqlite(
            store.path,
            own_parts=own_parts,
            clock=clock,
            wipe=wipe,
            min_free_space=min_free_space,
            first_reading=first_reading,
            on_failure=on_failure,
        )
    if isinstance(store, PostgresUrl):
        return await _open_postgresql(store, clock, first_reading, on_failure)
    from keytables.dynamodb import DynamoEngine  # noqa: PLC0415

    return await DynamoEngine.open(
        region=store.region,
        endpoint=store.endpoint,
        prefix=store.prefix,
        connections=store.connections,
        alternator=store.alternator,
        clock=clock,
        on_failure=on_failure,
    )


def _sqlite(rest: str) -> SqliteUrl:
    host, slash, path = rest.partition("/")
    if host or not slash or not path.strip("/"):
        raise ValueError(
            f"an embedded store is sqlite:///PATH, not {_redacted('sqlite://' + rest)}"
        )
    if "?" in path or "#" in path:
        raise ValueError("an embedded store has no options; in a path, '?' is %3F and '#' is %23")
    return SqliteUrl("/" + unquote(path).lstrip("/"))


def _dynamodb(text: str) -> DynamoUrl:
    match = _DYNAMODB.fullmatch(text)
    if match is None:
        raise ValueError(
            f"a DynamoDB store is dynamodb://REGION?OPTIONS, REGION as in eu-west-1, "
            f"not {_redacted(text)}"
        )
    options = _options("a DynamoDB store", match["options"] or "", _OPTIONS)
    return DynamoUrl(
        match["region"],
        options.get("endpoint"),
        _prefix(options.get("prefix", "")),
        _connections(options.get("connections", "50")),
        _switch("alternator", options.get("alternator", "no")),
    )


def _postgresql(text: str) -> PostgresUrl:
    match = _POSTGRESQL.fullmatch(text)
    if match is None:
        raise ValueError(
            "a PostgreSQL store is postgresql://USER@HOST:PORT/DATABASE?schema=NAME; in a user, "
            "password or name, '@' is %40, '/' is %2F, ':' is %3A and '#' is %23"
        )
    own = ("schema", "connections", "connect_timeout", *_SETTINGS)
    options = _options("a PostgreSQL store", match["options"] or "", (*own, *_LIBPQ))
    schema = options.get("schema", "keytables")
    if not _SCHEMA.fullmatch(schema):
        raise ValueError(f"schema={schema!r}: expected at most 63 of a-z, 0-9 and '_'")
    kept = urlencode({name: value for name, value in options.items() if name in _LIBPQ})
    settings = {
        setting: options.get(name) or os.environ.get(variable, "")
        for name, (setting, variable) in _SETTINGS.items()
    }
    return PostgresUrl(
        f"postgresql://{match['place']}" + (f"?{kept}" if kept else ""),
        schema,
        _connections(options.get("connections", "10"), 2),  # one writes, one reads
        _seconds(options.get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT") or "5"),
        tuple((name, value) for name, value in settings.items() if value),
    )


async def _open_postgresql(
    store: PostgresUrl,
    clock: Clock,
    first_reading: ClockReading | None,
    on_failure: OnFailure | None,
) -> Engine:
    try:
        from keytables.postgresql import PostgresEngine  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise Unavailable(_NO_CLIENT) from None

    return await PostgresEngine.open(
        store.url,
        schema=store.schema,
        settings=dict(store.settings),
        connections=store.connections,
        connect_timeout=store.connect_timeout,
        clock=clock,
        first_reading=first_reading,
        on_failure=on_failure,
    )


def _options(what: str, text: str, known: tuple[str, ...]) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(f"{what} has {', '.join(known)}, not {name!r}{hint}")
        if name in options:
            raise ValueError(f"{name} is given twice")
        options[name] = value
    return options


def _seconds(text: str) -> float:
    if not text.isdecimal():
        raise ValueError(f"connect_timeout={text!r}: expected a number of seconds")
    return float(max(int(text), 1))


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError(f"prefix={text!r}: expected at most 200 of letters, digits, '_', '-', '.'")
    return text


def _connections(text: str, least: int = 1) -> int:
    if not text.isdecimal() or not least <= int(text) <= MAX_CONNECTIONS:
        expected = f"a number from {least} to {MAX_CONNECTIONS}"
        raise ValueError(f"connections={text!r}: expected {expected}")
    return int(text)


def _switch(name: str, text: str) -> bool:
    if text not in _SWITCH:
        raise ValueError(f"{name}={text!r}: expected yes or no")
    return _SWITCH[text]


def without_password(text: str) -> str:
    """Return the URL of a store for logs and pages."""
    text = _PASSWORD.sub(r"\1=…", text)
    return re.sub(r"^(postgres(?:ql)?://[^:@/?#]*):[^@/?#]*@", r"\1@", text)


def _redacted(text: str) -> str:
    """Return a bad URL for error texts, without what may be a password."""
    text = _PASSWORD.sub(r"\1=…", text)
    return repr(re.sub(r"//.*(?:@|%40)", "//…@", text, flags=re.DOTALL))
