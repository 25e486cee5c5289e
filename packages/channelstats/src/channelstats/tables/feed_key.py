"""The key of the feed: it lets a reader have what is to be done, and see nothing else.

Rule: only a digest of it is kept, in the row `feed` of the table Configuration; there is one key at
a time, and a new one ends the one before.
"""

import hashlib
import hmac
from secrets import token_urlsafe
from typing import Final

from channelstats.tables.configuration import Configuration
from channelstats.tables.items import text

_ROW: Final = "feed"
_BYTES: Final = 24


class FeedKey:
    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    async def renew(self) -> str:
        """A new key, which nobody can ask for again."""
        key = token_urlsafe(_BYTES)
        await self._configuration.put(_ROW, {"digest": _digest(key)})
        return key

    async def remove(self) -> None:
        """From now on no key fits."""
        await self._configuration.delete(_ROW)

    async def fits(self, key: str) -> bool:
        kept = text(await self._configuration.get(_ROW), "digest")
        return bool(kept) and hmac.compare_digest(kept, _digest(key))


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
