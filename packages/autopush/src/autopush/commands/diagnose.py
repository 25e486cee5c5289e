"""`autopush diagnose URL`: what the service knows of an endpoint, and whether a push would arrive.

Also `endpoint_diagnostic`, as in the original, with its texts and exit codes.

Rule: it changes nothing, and prints no token of a device, no credentials and no message.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pprint import pformat
from typing import Final

from autopush.bridges.discovery import configured_routers
from autopush.commands.diagnosis import (
    Arrival,
    EndpointUrl,
    Facts,
    Rule,
    Verdict,
    judge,
    parse_endpoint_url,
)
from autopush.commands.running import (
    INCOMPLETE,
    check_store_exists,
    opened_engine,
    print_error,
    run_until_signal,
)
from autopush.delivery.connected import Registry
from autopush.delivery.peers import NodeAnswer, Nodes
from autopush.keys import existing_crypto_keys, key_file
from autopush.net.timers import TimerWheel
from autopush.net.tls import ClientTls, TlsFileError
from autopush.service.app import node_keys
from autopush.service.storage import table_plan
from autopush.settings import Settings, StartupError
from autopush.store.inspection import UserInspection, UserTable, inspect_user
from autopush.telemetry.metric_table import METRICS
from autopush.telemetry.metrics import unshared_metrics
from autopush.webpush.endpoint_token import Endpoint, EndpointTokens
from autopush.webpush.errors import PushError
from autopush.webpush.identifiers import undashed
from autopush.webpush.keyring import KeyRing
from keytables import Item, KeytablesError, TableNotFound, Value

MAX_LISTED: Final = 50
"""Channels that are printed; `--json` has them all."""

NO_ENDPOINT: Final = "Not a valid endpoint"
INVALID_TOKEN: Final = "Invalid Token"  # noqa: S105 - what the original prints
NOT_FOUND: Final = "Not Found"

_PLAIN: Final = frozenset(
    (
        *("uaid", "router_type", "node_id", "connected_at", "last_connect", "current_month"),
        *("curmonth", "moved_from", "record_version", "critical_failure", "expiry"),
        *("app_id", "rel_channel"),
    )
)
"""Attributes of a router record, and members of its data, whose values are shown."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that is printed. `age_at`: the time that ages are counted back from."""

    facts: Facts
    verdict: Verdict
    age_at: float


def diagnose(settings: Settings, arguments: argparse.Namespace) -> int:
    """Print what is known of the endpoint; exit code 1: it is none, or not of this service, or its
    user is gone.

    Raises:
        StartupError: there are no keys, or the store cannot be opened.
    """
    url = parse_endpoint_url(arguments.url)
    if url is None:
        print_error(NO_ENDPOINT)
        return INCOMPLETE
    if not (settings.crypto_key or key_file(settings.data, "crypto_key").exists()):
        check_store_exists(settings)  # of a wrong data folder that is the better message
    keys = existing_crypto_keys(settings.crypto_key, settings.data)
    ring = KeyRing(keys)
    try:
        endpoint = EndpointTokens(ring, settings.public_endpoint_url).open(url.token)
    except PushError:
        endpoint = None
    return run_until_signal(_diagnose(settings, keys, url, endpoint, as_json=arguments.json))


async def _diagnose(
    settings: Settings,
    keys: Sequence[str],
    url: EndpointUrl,
    endpoint: Endpoint | None,
    *,
    as_json: bool,
) -> int:
    now = time.time()
    facts = Facts(url=url, endpoint=endpoint, bridges=configured_routers(settings))
    if endpoint is not None:
        try:
            user = await _inspect(settings, endpoint, now)
        except KeytablesError as error:
            print_error(f"the store {settings.store_place} failed: {error}")
            return INCOMPLETE
        node = None if user is None else await _ask_node(settings, keys, user)
        facts = Facts(url=url, endpoint=endpoint, user=user, node=node, bridges=facts.bridges)
    report = Report(facts, judge(facts), now)
    if as_json:
        print(json.dumps(to_document(report), indent=2))
    else:
        print("\n".join(to_lines(report)))
    if endpoint is None:
        print_error(INVALID_TOKEN)
    elif facts.user is None:
        print_error(NOT_FOUND)
    else:
        return 0
    return INCOMPLETE


async def _inspect(settings: Settings, endpoint: Endpoint, now: float) -> UserInspection | None:
    async with opened_engine(settings, time.time) as engine:
        try:
            return await inspect_user(
                engine,
                table_plan(settings),
                endpoint.uaid,
                endpoint.channel_id,
                key_hash=settings.key_hash,
                now=now,
            )
        except TableNotFound:
            table = settings.router_tablename
            raise StartupError(
                f"there is no table {table} in the store {settings.store_place}"
            ) from None


async def _ask_node(
    settings: Settings, keys: Sequence[str], user: UserInspection
) -> NodeAnswer | None:
    """What the node on record says; waits `request_timeout` seconds at most."""
    if user.record is None or user.record.node_id is None:
        return None
    try:
        tls = ClientTls(settings.router_ssl_ca)
    except TlsFileError as error:
        raise StartupError(f"router_ssl_ca: {error}") from None
    wheel = TimerWheel(asyncio.get_running_loop())
    nodes = Nodes(
        "",
        Registry(time.time),
        wheel,
        unshared_metrics(METRICS),
        keys=node_keys(keys),
        connect_timeout=settings.connection_timeout,
        request_timeout=settings.request_timeout,
        tls=tls,
    )
    try:
        return await nodes.is_connected(user.record.node_id, user.record.uaid)
    finally:
        nodes.close()
        wheel.close()


# ── Output ────────────────────────────────────────────────────────────────────────────────────────


def shown_row(row: Item) -> dict[str, object]:
    """A router record without what could be used in its user's name."""
    return {name: _shown(name, value) for name, value in sorted(row.items())}


def _shown(name: str, value: Value) -> object:
    if isinstance(value, Mapping):
        return {member: _shown(member, inner) for member, inner in sorted(value.items())}
    if name in _PLAIN and isinstance(value, str | int | float):
        return value
    return f"<{len(value)} characters>" if isinstance(value, str) else f"<{type(value).__name__}>"


def to_lines(report: Report) -> list[str]:
    """The report for people; its first parts are those of the original."""
    facts, verdict = report.facts, report.verdict
    endpoint, user = facts.endpoint, facts.user
    if endpoint is None:
        why = "damaged, or made with a key that is not used here"
        question = "Are you using the correct configuration or platform?"
        return [f"Token could not be deciphered: {why}. {question}"]
    lines = [f"UAID: {endpoint.uaid}", f"CHID: {undashed(endpoint.channel_id)}"]
    if endpoint.key_hash is not None:
        lines.append(f"Key hash: {endpoint.key_hash.hex()}")
    lines.append("")
    if user is None:
        lines += ["Item Missing from database: there is no router record of this UAID.", ""]
    else:
        lines += ["Router record:", pformat(shown_row(user.row)), ""]
        for table in user.tables:
            lines += [*_table_lines(table, endpoint.channel_id, report.age_at), ""]
        if user.missing_table:
            lines += [f"Message table {user.missing_table}: there is none", ""]
        if facts.node is not None and user.record is not None:
            lines += [f"Node {user.record.node_id}: {_node_words(facts.node)}", ""]
    lines.append(f"{_headline(verdict.rule)}: {verdict.rule.title}")
    return [*lines, verdict.text]


def _headline(rule: Rule) -> str:
    match rule.arrival:
        case Arrival.NOW:
            return "A push would arrive"
        case Arrival.LATER:
            return "A push would arrive later"
        case Arrival.NEVER:
            return "A push would not arrive"
        case Arrival.UNKNOWN:
            return "A push would be passed on"


def _node_words(answer: NodeAnswer) -> str:
    if answer is NodeAnswer.DONE:
        return "the user agent is connected there"
    if answer is NodeAnswer.BUSY:
        return "it answers, but not to this question"
    return str(answer.value)


def _table_lines(table: UserTable, channel_id: str, now: float) -> list[str]:
    if table.channels is None:
        lines = [f"Versions in table {table.name}:"]
    else:
        listed = sorted(table.channels, key=lambda channel: (channel != channel_id, channel))
        lines = [f"Channels in message table {table.name}: {len(listed)}"]
        for channel in listed[:MAX_LISTED]:
            lines.append(f"  {channel}" + (" (this endpoint)" if channel == channel_id else ""))
        if len(listed) > MAX_LISTED:
            lines.append(f"  and {len(listed) - MAX_LISTED} more")
    pending = table.pending
    more = "at least " if pending.has_more else ""
    words = [f"Pending: {more}{pending.count:,}, of this channel {pending.of_channel:,}"]
    if pending.oldest is not None and pending.newest is not None:
        words.append(f"{pending.size:,} bytes")
        words.append(f"stored {_age(now - pending.oldest)} to {_age(now - pending.newest)} ago")
    if pending.expired:
        words.append(f"and {pending.expired:,} expired")
    return [*lines, ", ".join(words)]


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def to_document(report: Report) -> dict[str, object]:
    """The report for programs; ages are in seconds."""
    facts, verdict = report.facts, report.verdict
    document: dict[str, object] = {
        "rule": verdict.rule.title,
        "arrives": verdict.rule.arrival.value,
        "explanation": verdict.text,
    }
    if facts.endpoint is None:
        return document
    endpoint, user = facts.endpoint, facts.user
    document |= {
        "uaid": endpoint.uaid,
        "channel": endpoint.channel_id,
        "key_hash": None if endpoint.key_hash is None else endpoint.key_hash.hex(),
        "record": None if user is None else shown_row(user.row),
        "node": None if facts.node is None else facts.node.name.lower(),
        "tables": [_table_document(table, report.age_at) for table in user.tables] if user else [],
        "missing_table": user.missing_table if user else None,
    }
    return document


def _table_document(table: UserTable, now: float) -> dict[str, object]:
    pending = table.pending
    ages = {
        name: None if at is None else max(0, int(now - at))
        for name, at in (("oldest", pending.oldest), ("newest", pending.newest))
    }
    return {
        "name": table.name,
        "channels": None if table.channels is None else sorted(table.channels),
        "pending": {
            "count": pending.count,
            "of_channel": pending.of_channel,
            "bytes": pending.size,
            **ages,
            "expired": pending.expired,
            "has_more": pending.has_more,
        },
    }
