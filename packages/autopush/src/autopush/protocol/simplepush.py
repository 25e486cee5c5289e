"""SimplePush: how a session differs for a user agent that takes versions, not messages.

Rule: an ack of a version acks all lower ones of its channel, and only the newest version of a
channel is sent.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from autopush.protocol.drain import Unacked
from autopush.protocol.messages import ClientMessage
from autopush.webpush.identifiers import is_channel_id
from autopush.webpush.notification import Notification, number_of

WakeData = Mapping[str, str]
"""Where a device can be woken: `ip`, `port`, and its network: `mcc`, `mnc`, `netid`."""

_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_NETWORK: Final = ("mcc", "mnc", "netid")
_NETWORK_NAME: Final = re.compile(r"[0-9A-Za-z._-]{0,64}")


class SimplePushState(Struct):
    """`wake_data`: from the hello, if any. `last_message`: epoch seconds."""

    wake_data: WakeData | None
    last_message: float


def is_spoken(hello: ClientMessage) -> bool:
    """Whether this is a hello of SimplePush.

    Without `use_webpush` it is if it lists channels, as SimplePush demands; some user agents, such
    as KDE's, send neither and take messages.
    """
    if hello.use_webpush is None:
        return hello.channel_ids is not None
    return not hello.use_webpush


def read_wake_data(wakeup_host: object, mobilenetwork: object) -> WakeData | None:
    """The wake data in a hello; None without a host or with an invalid value."""
    if not isinstance(wakeup_host, dict):
        return None
    network = mobilenetwork if isinstance(mobilenetwork, dict) else {}
    data = {name: _text(wakeup_host.get(name)) for name in ("ip", "port")}
    data |= {name: _text(network.get(name)) for name in _NETWORK}
    try:
        ipaddress.ip_address(data["ip"])
    except ValueError:
        return None
    is_address = "%" not in data["ip"]  # a zone is local to its machine
    is_port = _PORT.fullmatch(data["port"]) is not None and int(data["port"]) < 65536
    is_network = all(_NETWORK_NAME.fullmatch(data[name]) for name in _NETWORK)
    return data if is_address and is_port and is_network else None


def _text(value: object) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def acked(unacked: Mapping[str, Unacked], updates: object) -> list[str]:
    """The unacked versions that an ack covers; malformed entries are skipped."""
    highest: dict[str, int] = {}
    for update in updates if isinstance(updates, list) else ():
        if isinstance(update, dict) and is_channel_id(channel_id := update.get("channelID")):
            number = update.get("version")
            if isinstance(number, int) and not isinstance(number, bool):
                highest[channel_id] = max(number, highest.get(channel_id, number))
    return [
        version
        for version, sent in unacked.items()
        if sent.channel_id in highest and number_of(version) <= highest[sent.channel_id]
    ]


def is_outdated(unacked: Mapping[str, Unacked], notification: Notification) -> bool:
    """Whether that version of its channel, or a newer one, was sent and is not acked."""
    number = number_of(notification.version)
    return any(
        sent.channel_id == notification.channel_id and number_of(version) >= number
        for version, sent in unacked.items()
    )


def newest(unacked: Mapping[str, Unacked], updates: Sequence[Notification]) -> list[Notification]:
    """Those of `updates`, all of them unacked, that no other unacked version supersedes."""
    highest: dict[str, int] = {}
    for version, sent in unacked.items():
        number = number_of(version)
        highest[sent.channel_id] = max(number, highest.get(sent.channel_id, number))
    return [update for update in updates if number_of(update.version) == highest[update.channel_id]]
