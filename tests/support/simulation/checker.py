"""What must hold of a run, judged by its history alone.

every 201 is delivered, expired, replaced, or deleted by its sender or with its channel
… and soon, to a user agent that is connected, unless something goes wrong at that time
… and to one that stays connected, within the time in which records are checked
nothing comes again after its row was deleted, nor after an ack when nothing goes wrong
every request is answered, unless its worker ends
nothing comes below the urgency that its user agent takes, which is not forgotten
nothing comes after its TTL, nor after it was deleted, nor of a channel that was left
nothing is accepted for a channel that was left, when nothing goes wrong
each user agent has one connection, and after an upgrade the older version ends
"""

from collections.abc import Iterator, Sequence

from autopush.webpush.tokens import parse_message_id
from autopush.webpush.urgency import is_below
from support.simulation.workers import RING
from support.simulation.world import Accepted, Filter, User, World

SOON = 5.0
"""Seconds."""
CLOCKS = 8.0
"""Seconds by which the wall clock of a run may be set, plus the time that a delivery may take."""


def violations(world: World) -> list[str]:
    history, now = world.history, world.loop.now
    found = list(history.wrong)
    for version, message in history.accepted.items():
        times = history.delivered.get(version, [])
        name = f"message of user {message.user.name} at {message.sent:.2f} (ttl {message.ttl})"
        if not times and not _may_be_missing(world, message, now):
            found.append(f"lost: {name}, topic {message.topic!r}")
        deleted = world.disk.deleted.get(version)
        if deleted is not None and any(at > deleted + 0.001 for at in times):
            found.append(f"again after its row was deleted at {deleted:.2f}: {name}, {times}")
        acked = history.acked.get(version, now)
        if any(at > acked + SOON for at in times) and _is_calm(world, acked - 2, acked + SOON):
            found.append(f"again after its ack at {acked:.2f}: {name}, {times}")
        removed = history.removed.get(version) if world.store_first and message.ttl else None
        if removed and times and times[0] > removed and not _is_lost(world, removed, removed):
            found.append(f"after its sender had deleted it at {removed:.2f}: {name}, {times}")
        left = history.unregistered.get(message.channel, now)
        if times and times[-1] > left and message.at < history.unregistering[message.channel]:
            found.append(f"of a channel that was left at {left:.2f}: {name}, {times}")
        if message.sent > left and _is_calm(world, message.sent - SOON, message.at):
            found.append(f"accepted for a channel that was left at {left:.2f}: {name}")
        if late := _is_late(world, message, times) or _is_silent(world, message, times):
            found.append(f"late: {name}, {times}, {late}")
        found += [
            f"below {each.least} since {each.start:.2f}: {name}, {times}"
            for each in _filters_above(world, message)
            if any(each.start < at < each.end for at in times)
        ]
        if any(at > message.at + message.ttl + CLOCKS for at in times):
            found.append(f"after its TTL: {name}, {times}")
    for user, places in history.places:
        if len(places) != 1:
            found.append(f"user {user.name} is connected to workers {places}")
    hosts = [worker.host for worker in world.survivors]
    if len({*hosts}) != len(hosts):
        found.append(f"an older version has not ended: {[*map(str, world.survivors)]}")
    for worker, sent, task in world.asked:
        if worker in world.survivors and not task.done():
            found.append(f"no answer to a push at {sent:.2f}")
    for worker in world.survivors:
        closed = [each for each in worker.registry._users.values() if not each.is_connected]
        if closed:
            found.append(f"worker {worker.index} has closed connections in its registry")
        if worker.registry.acked._undeleted:
            found.append(f"worker {worker.index} has acks that it does not save")
    found += [f"unhandled: {error.get('exception') or error}" for error in world.loop.errors]
    return found


def _is_calm(world: World, start: float, end: float) -> bool:
    return not any(began < end and ended > start for began, ended in world.history.troubled)


def _is_lost(world: World, sent: float, answered: float) -> bool:
    """Whether what was done then may have been lost in a failover."""
    return any(began <= answered and sent <= ended for began, ended in world.history.lost)


def _is_late(world: World, message: Accepted, times: Sequence[float]) -> str:
    """Whether its user agent was connected for some time after it was accepted, without it."""
    for user, began, ended in world.history.connected:
        start = max(began, message.at)
        if (
            user is message.user
            and start + SOON < min(ended, message.at + message.ttl - CLOCKS)
            and not any(at < start + SOON for at in times)
            and not _is_held_back(world, message, start, start + SOON)
            and _is_calm(world, start - SOON, start + SOON)
            and _has_acked_all(world, user, began, start + SOON)
            and not _may_be_missing(world, message, start)
        ):
            return f"connected from {began:.2f} to {ended:.2f}"
    return ""


def _is_silent(world: World, message: Accepted, times: Sequence[float]) -> str:
    """Whether its user agent stayed connected without it, for as long as nobody may."""
    for user, began, ended in world.history.connected:
        end = max(began, message.at, world.history.calm_from) + world.record_check_interval + SOON
        if (
            user is message.user
            and user.stays
            and began < world.history.calm_from
            and end < min(ended, message.at + message.ttl - CLOCKS)
            and not any(at < end for at in times)
            and not _is_held_back(world, message, message.at, end)
            and not _may_be_missing(world, message, message.at)
        ):
            return f"stayed connected from {began:.2f} to {ended:.2f}"
    return ""


def _is_held_back(world: World, message: Accepted, start: float, end: float) -> bool:
    """Whether its user agent may have taken only higher urgencies at some time."""
    return any(
        each.sent < end and each.released > start - SOON for each in _filters_above(world, message)
    )


def _filters_above(world: World, message: Accepted) -> Iterator[Filter]:
    """Those of its user agent that do not let it pass."""
    for each in world.history.filters:
        if each.user is message.user and is_below(message.urgency, each.least):
            yield each


def _has_acked_all(world: World, user: User, start: float, end: float) -> bool:
    """While something is unacked, further stored messages have to wait."""
    history = world.history
    return all(
        history.acked.get(version, end) < end - 1
        for version, message in history.accepted.items()
        if message.user is user
        and any(start <= at < end for at in history.delivered.get(version, ()))
    )


def _may_be_missing(world: World, message: Accepted, now: float) -> bool:
    history = world.history
    if message.at + message.ttl < now + CLOCKS:
        return True
    if _is_lost(world, message.sent, message.at):
        return True
    if message.channel in history.unregistering or message.version in history.removing:
        return True
    if not message.topic:
        return False
    if any(
        other.topic == message.topic
        and other.channel == message.channel
        and other.at >= message.sent
        for other in history.accepted.values()
        if other is not message
    ):
        return True
    # By one whose sender was told nothing, or 503.
    replacing, at = world.disk.replaced.get(message.version, ("", 0.0))
    if replacing not in history.accepted and at > message.at:
        return True
    return any(
        version not in history.accepted
        and times[-1] >= message.sent
        and (read := parse_message_id(RING, version)).topic == message.topic
        and read.channel_id == message.channel
        for version, times in history.delivered.items()
    )
