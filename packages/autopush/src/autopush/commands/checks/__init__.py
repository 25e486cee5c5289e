"""The checks of `autopush doctor`: what each looks at, and what it found.

machine        data folder, keys, disk, limits of the system
installation   SQLite, extras, credentials of bridges
certificates   the files of TLS
tables         the store and its tables
ports          the ports of this machine
urls           the public URLs, and the clock of what answers there
probe          one request with a time limit

Rule: a check changes nothing but rows of its own that it deletes, ends in a bounded time, and names
no secret.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from autopush.clock import Clock
from autopush.settings import Settings

FEW_DAYS: Final = 14
"""Days before the end of a certificate from which it is a warning."""


class Level(StrEnum):
    """What a finding means for the service."""

    OK = "OK"
    WARN = "WARN"
    """It works, and may not do so under load, in a cluster or for long."""
    FAIL = "FAIL"
    """It does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `advice`: what to do; empty where all is well."""

    level: Level
    found: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.found}. {self.advice}" if self.advice else self.found


def ok(found: str) -> Finding:
    """All is well."""
    return Finding(Level.OK, found)


def warn(found: str, advice: str) -> Finding:
    """What may become a problem."""
    return Finding(Level.WARN, found, advice)


def fail(found: str, advice: str) -> Finding:
    """What is one."""
    return Finding(Level.FAIL, found, advice)


class PortUse(StrEnum):
    """Who listens on a port that the service is to listen on."""

    FREE = "free"
    OURS = "in use by this service"
    OTHER_VERSION = "in use by another version of this service"
    OTHER = "in use, and does not answer as this service"
    FORBIDDEN = "not allowed for this user"
    NO_ADDRESS = "on an address that this machine does not have"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined: the settings of a command and what was found before the checks."""

    settings: Settings
    clock: Clock
    warnings: Sequence[str] = ()
    """Those of loading the settings."""
    ports: Mapping[str, PortUse] = field(default_factory=dict)
    """By purpose: see `Settings.listeners`."""

    @property
    def is_running(self) -> bool:
        """Whether the service runs on this machine, with these ports."""
        return not {PortUse.OURS, PortUse.OTHER_VERSION}.isdisjoint(self.ports.values())


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the table of checks."""

    name: str
    run: Callable[[Subject], Awaitable[Sequence[Finding]]]
    timeout: float = 6.0
    """Seconds."""
