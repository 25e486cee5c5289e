"""The settings of the service: the table of options, which is also the typed value all read.

Rule: an option exists here once; nothing else spells a default or reads the environment.
`autopush.settings_sources.load` fills it from files, environment and flags.
"""

from dataclasses import dataclass, fields, replace
from typing import Final, Self, cast

from .settings_delivery import DELIVERY, KEYS, LIMITS, TIMERS, DeliveryOptions
from .settings_kinds import boolean, choice, text_value
from .settings_network import ADDRESSES, PUBLIC, NetworkOptions
from .settings_storage import STORAGE, StorageOptions
from .settings_table import EVERYONE, Option, StartupError, option

__all__ = ["OPTIONS", "Settings", "StartupError"]

LOGS: Final = "Logs"

GROUPS: Final = (ADDRESSES, PUBLIC, KEYS, DELIVERY, LIMITS, TIMERS, STORAGE, LOGS)
"""In the order in which help and reference show them."""


@dataclass(frozen=True, kw_only=True)
class Settings(NetworkOptions, DeliveryOptions, StorageOptions):
    """What the service was told. Times are seconds, sizes are bytes."""

    log_level: str = option(
        "",
        choice("debug", "info", "warning", "error", "critical"),
        LOGS,
        "lowest level that is logged",
        default_text="info, or debug with the option debug",
        bare_env=("LOG_LEVEL",),
        commands=EVERYONE,
    )
    log_output: str = option(
        "stdout",
        text_value,
        LOGS,
        "stdout, stderr, none, or the name of a file to append to",
        bare_env=("LOG_OUTPUT",),
        commands=EVERYONE,
    )
    human_logs: bool | None = option(
        None,
        boolean,
        LOGS,
        "log text for people instead of JSON lines",
        default_text="on when the output is a terminal",
        bare_env=("HUMAN_LOGS",),
        commands=EVERYONE,
    )
    debug: bool = option(
        False, boolean, LOGS, "log everything, unless log_level says otherwise", commands=EVERYONE
    )

    @property
    def needs_data_folder(self) -> bool:
        """Whether the store or a key is kept in the data folder."""
        keys_given = self.crypto_key and (self.auth_key or not self.has_endpoint)
        return self.store_is_in_data_folder or not keys_given

    @property
    def store_first(self) -> bool:
        """`direct_delivery` with its default worked out."""
        return self.direct_delivery == "store-first" or (
            not self.direct_delivery and self.is_embedded
        )

    @property
    def effective_log_level(self) -> str:
        return self.log_level or ("debug" if self.debug else "info")

    def with_ports(self, *, port: int, endpoint_port: int, router_port: int) -> Self:
        """The same settings with the ports that were really bound, for when some were 0."""
        return replace(self, port=port, endpoint_port=endpoint_port, router_port=router_port)


def _declared() -> tuple[Option, ...]:
    rows = []
    for declared in fields(Settings):
        if "option" in declared.metadata:
            row = cast(Option, declared.metadata["option"])
            rows.append(replace(row, name=declared.name))
    return tuple(sorted(rows, key=lambda row: GROUPS.index(row.group)))


OPTIONS: Final = _declared()
"""The table."""
