"""The options of the store: where the tables are, what they are called and what they may use up.

Rule: what is not given follows from where the store is, and is worked out here only.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from .settings_kinds import boolean, choice, folder, integer, store_url, table_name, url
from .settings_table import EVERYONE, StartupError, computed_option, option

STORAGE: Final = "Storage"

STORE_FILE: Final = "autopush.sqlite"
UNITS: Final = 5
"""Capacity of a table that has provisioned capacity and no option that says how much."""

_TABLES: Final = ("router", "storage", "message")


def default_data_folder(environ: Mapping[str, str] | None = None) -> Path:
    """`$XDG_DATA_HOME/autopush`, or `~/.local/share/autopush`.

    Raises:
        StartupError: there is no home folder to be found.
    """
    # The XDG base directory specification says to ignore a relative path.
    base = Path((os.environ if environ is None else environ).get("XDG_DATA_HOME", ""))
    if base.is_absolute():
        return base / "autopush"
    try:
        return Path.home() / ".local" / "share" / "autopush"
    except RuntimeError:
        raise StartupError("no home folder to keep data in; name a folder with --data") from None


def _throughput(table: str, way: str) -> int | None:
    return option(
        None,
        integer(1, 1_000_000, "UNITS"),
        STORAGE,
        f"{way} units of a {table} table that is made with provisioned capacity",
        default_text=f"{UNITS}",
        bare_env=(f"{table}_{way}_throughput".upper(),),
        commands=EVERYONE,
    )


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """Store, tables and capacity."""

    data: Path = computed_option(  # noqa: RUF009
        default_data_folder,
        folder,
        STORAGE,
        "folder of the embedded store and of the keys made at the first start",
        default_text="$XDG_DATA_HOME/autopush, or ~/.local/share/autopush",
        commands=EVERYONE,
    )
    store: str = option(
        "",
        store_url,
        STORAGE,
        "where the tables are: sqlite:///PATH, or dynamodb://REGION with ?endpoint=URL for "
        "another server than that of AWS and &prefix=TEXT for the names of the tables",
        default_text=f"the embedded store, {STORE_FILE} in the data folder",
        commands=EVERYONE,
    )
    aws_ddb_endpoint: str = option(
        "",
        url("http", "https"),
        STORAGE,
        "address of a local DynamoDB; without the option store it means a store there",
        default_text="that of the region",
        bare_env=("AWS_LOCAL_DYNAMODB",),
        commands=EVERYONE,
    )
    no_aws: bool = option(
        False,
        boolean,
        STORAGE,
        "never ask the machine's metadata address (169.254.169.254), not even for credentials",
        bare_env=("NO_AWS",),
        commands=EVERYONE,
    )
    router_tablename: str = option(
        "router",
        table_name,
        STORAGE,
        "table of the user agents",
        bare_env=("ROUTER_TABLENAME",),
        commands=EVERYONE,
    )
    storage_tablename: str = option(
        "storage",
        table_name,
        STORAGE,
        "table of SimplePush versions",
        bare_env=("STORAGE_TABLENAME",),
        commands=EVERYONE,
    )
    message_tablename: str = option(
        "message",
        table_name,
        STORAGE,
        "how the names of the message tables begin",
        bare_env=("MESSAGE_TABLENAME",),
        commands=EVERYONE,
    )
    no_table_rotation: bool | None = option(
        None,
        boolean,
        STORAGE,
        "keep one message table for good, instead of a new one each month",
        default_text="on for the embedded store, off on DynamoDB",
        bare_env=("NO_TABLE_ROTATION",),
        commands=EVERYONE,
    )
    capacity: str = option(
        "",
        choice("on-demand", "provisioned"),
        STORAGE,
        "how DynamoDB is to bill a table that is made: by request, or by provisioned units",
        default_text="on-demand, or provisioned when a throughput is given",
        commands=EVERYONE,
    )
    router_read_throughput: int | None = _throughput("router", "read")
    router_write_throughput: int | None = _throughput("router", "write")
    storage_read_throughput: int | None = _throughput("storage", "read")
    storage_write_throughput: int | None = _throughput("storage", "write")
    message_read_throughput: int | None = _throughput("message", "read")
    message_write_throughput: int | None = _throughput("message", "write")

    @property
    def store_url(self) -> str:
        """`store` with its default worked out."""
        endpoint = self.aws_ddb_endpoint
        if endpoint and not self.store:
            return f"dynamodb://?endpoint={endpoint}"
        if endpoint and self.store.startswith("dynamodb:") and "endpoint=" not in self.store:
            return f"{self.store}{'&' if '?' in self.store else '?'}endpoint={endpoint}"
        return self.store or f"sqlite://{quote(str(self.data.absolute() / STORE_FILE))}"

    @property
    def is_embedded(self) -> bool:
        """Whether the store is a file of this machine."""
        return self.store_url.startswith("sqlite:")

    @property
    def store_place(self) -> str:
        """Where the store is, to be told to people."""
        return self.store_url if self.store or not self.is_embedded else f"{self.data / STORE_FILE}"

    @property
    def store_is_in_data_folder(self) -> bool:
        return not self.store and self.is_embedded

    @property
    def rotates(self) -> bool:
        """`no_table_rotation` with its default worked out, and turned round."""
        return not (self.is_embedded if self.no_table_rotation is None else self.no_table_rotation)

    def units(self, table: str) -> tuple[int, int] | None:
        """Read and write units of `router`, `storage` or `message`; None means on demand."""
        names = [f"{kind}_{way}_throughput" for kind in _TABLES for way in ("read", "write")]
        given = any(getattr(self, name) is not None for name in names)
        if self.capacity == "on-demand" or (not self.capacity and not given):
            return None
        read, write = (getattr(self, f"{table}_{way}_throughput") for way in ("read", "write"))
        return read or UNITS, write or UNITS
