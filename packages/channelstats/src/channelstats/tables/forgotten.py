"""Whom the store has forgotten, so that no later import brings them back.

Rule: the list holds digests of their IDs, never the IDs: it can tell somebody who comes again, and
nobody else.
"""

import hashlib
from typing import Final

from channelstats.tables.configuration import Configuration
from keytables import Update

_KEY: Final = "forgotten"
_ADD: Final = Update(add_to=("people",))
_DIGITS: Final = 32


def digest(uid: str) -> str:
    return hashlib.sha256(f"channelstats {uid}".encode()).hexdigest()[:_DIGITS]


async def add_forgotten(configuration: Configuration, uid: str) -> None:
    await add_digests(configuration, frozenset((digest(uid),)))


async def add_digests(configuration: Configuration, digests: frozenset[str]) -> None:
    """The same for people that another store has forgotten."""
    await configuration.update(_KEY, _ADD, {"people": digests})


async def forgotten(configuration: Configuration) -> frozenset[str]:
    """Digests of the people."""
    found = (await configuration.get(_KEY)).get("people")
    return frozenset(map(str, found)) if isinstance(found, frozenset) else frozenset()
