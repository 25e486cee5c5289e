"""Broadcasts: ids with a version each, the same for all user agents, which subscribe to ids.

An id is a name like `remote-settings/monitor_changes`. Changes are numbered, and subscriptions keep
the number of the last change sent: nothing is kept per user agent and broadcast, and a change costs
nothing until it is sent.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from autopush.telemetry.metrics import Counter

MAX_KNOWN: Final = 10_000
"""Ids kept; beyond that, those the source no longer names are forgotten."""
MAX_SHARED: Final = 1000
"""Distinct sets of subscriptions that are shared."""
NOT_FOUND: Final = "Broadcast not found"
TOO_MANY: Final = "Too many broadcasts"

Delta = dict[str, object]
"""What a user agent is sent: id → version; `errors`: what is wrong with ids it named."""


class Broadcasts:
    """`max_names`: ids per message and per user agent. `refused`: counts messages over that."""

    __slots__ = ("_current", "_shared", "change_count", "max_names", "no_subscriptions", "refused")

    def __init__(
        self,
        versions: Mapping[str, str] | None = None,
        *,
        max_names: int = 100,
        refused: Counter | None = None,
    ) -> None:
        self.max_names = max_names
        self.refused = Counter(0.0) if refused is None else refused
        self.change_count = 0
        self._current: dict[str, tuple[str, str, int]] = {}
        self.no_subscriptions = Subscriptions(self, (), 0)
        # Most user agents of one kind subscribe to the same ids, and share one object.
        self._shared: dict[tuple[str, ...], Subscriptions] = {}
        self.update(versions or {})

    def update(self, versions: Mapping[str, str]) -> int:
        """Returns the number of versions that changed."""
        changes = 0
        for name, version in versions.items():
            before = self._current.get(name)
            if before is None or before[1] != version:
                self.change_count += 1
                text = name if before is None else before[0]
                self._current[name] = text, version, self.change_count
                changes += 1
        if changes:
            self._shared.clear()
        if len(self._current) > MAX_KNOWN:
            for name in [name for name in self._current if name not in versions]:
                del self._current[name]
        return changes

    def replace(self, versions: Mapping[str, str]) -> None:
        """As `update`, by another source: ids that it does not name are unknown from now on."""
        for name in self._current.keys() - versions.keys():
            del self._current[name]
        self.update(versions)

    def find(self, name: str) -> tuple[str, str, int] | None:
        """The id (one str for all subscriptions), its version, and the number of its change."""
        return self._current.get(name)

    def subscriptions(self, ids: tuple[str, ...]) -> "Subscriptions":
        """Those of a user agent that was just sent every change."""
        shared = self._shared.get(ids)
        if shared is None:
            if len(self._shared) >= MAX_SHARED:
                self._shared.clear()
            shared = self._shared[ids] = Subscriptions(self, ids, self.change_count)
        return shared

    def restore(self, versions: Mapping[str, str]) -> "Subscriptions":
        """Those of a user agent that another process has sent these versions, by the id. What is
        new or was not known there is sent with the next ping.
        """
        known = {name: self._current[name] for name in versions if name in self._current}
        ids = tuple(text for text, _, _ in known.values())
        if all(version == versions[name] for name, (_, version, _) in known.items()):
            return self.subscriptions(ids)
        return Subscriptions(self, ids, 0)


class Subscriptions:
    """One user agent's subscriptions and the last change it was sent. Immutable, so that user
    agents can share it: methods return the replacement, and what to send.
    """

    __slots__ = ("_broadcasts", "_ids", "_seen")

    def __init__(self, broadcasts: Broadcasts, ids: tuple[str, ...], seen: int) -> None:
        self._broadcasts = broadcasts
        self._ids = ids
        self._seen = seen

    def add(self, wanted: object) -> tuple["Subscriptions", Delta]:
        """Subscribe to more ids; returns what is newer than the user agent knows.

        `wanted`: as received, id → version that the user agent has. What is not an object has no
        ids; what is not text is no version. Beyond the limit only the first id is answered.
        """
        if not isinstance(wanted, Mapping) or not wanted:
            return self.take_changes()
        delta: Delta = {}
        errors: dict[str, str] = {}
        ids = dict.fromkeys(self._ids)
        most = self._broadcasts.max_names
        for number, (name, known) in enumerate(islice(wanted.items(), most + 1), 1):
            current = self._broadcasts.find(name)
            if number > most:
                errors[name] = TOO_MANY
            elif current is None:
                errors[name] = NOT_FOUND
            elif name not in ids and len(ids) >= most:
                errors[name] = TOO_MANY
            else:
                ids[current[0]] = None
                if current[1] != known:
                    delta[name] = current[1]
        delta |= {name: version for name, version in self._changes() if name not in wanted}
        if errors:
            delta["errors"] = errors
            self._broadcasts.refused.value += TOO_MANY in errors.values()
        return self._broadcasts.subscriptions(tuple(ids)), delta

    def versions(self) -> dict[str, str]:
        """The version of each id that the user agent was sent, "" if that was an older one."""
        versions = dict.fromkeys(self._ids, "")
        for name in self._ids:
            current = self._broadcasts.find(name)
            if current is not None and current[2] <= self._seen:
                versions[name] = current[1]
        return versions

    def take_changes(self) -> tuple["Subscriptions", Delta]:
        """What changed since the last change sent."""
        if self._seen == self._broadcasts.change_count or not self._ids:
            return self, {}
        return self._broadcasts.subscriptions(self._ids), dict(self._changes())

    def _changes(self) -> list[tuple[str, str]]:
        broadcasts = (self._broadcasts.find(name) for name in self._ids)
        return [each[:2] for each in broadcasts if each is not None and each[2] > self._seen]


NO_BROADCASTS: Final = Broadcasts()
"""Without a source: no id is found."""
