"""`autopush diagnose URL`: what the service knows of an endpoint, and whether a push would arrive.

Also `endpoint_diagnostic`, with the texts and exit codes of the original. Read-only; prints no
device token, credentials or message.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from pprint import pformat
from typing import Final
from urllib.parse import urlsplit

from autopush.bridges.discovery import configured_routers
from autopush.commands import CommandLine
from autopush.commands.running import (
    INCOMPLETE,
    check_store_exists,
    opened_engine,
    run_until_signal,
)
from autopush.delivery.answering import Answering
from autopush.delivery.calls import Outcome
from autopush.delivery.connected import Registry
from autopush.delivery.diagnosis import (
    HEADLINES,
    EndpointUrl,
    Facts,
    judge,
    parse_endpoint_url,
    shown_row,
    to_document,
)
from autopush.delivery.peers import Nodes
from autopush.keys import existing_crypto_keys, key_file, node_keys
from autopush.net.node_auth import ANY_INSTANCE, instance_url
from autopush.net.timers import TimerWheel
from autopush.net.tls import ClientTls, TlsFileError
from autopush.service.storage import table_plan
from autopush.settings import Settings, StartupError
from autopush.shown import span
from autopush.store.inspection import UserInspection, UserTable, inspect_user
from autopush.store.users import UserRecord
from autopush.telemetry import logs
from autopush.telemetry.metric_table import METRICS
from autopush.telemetry.metrics import unshared_metrics
from autopush.webpush.errors import PushError
from autopush.webpush.identifiers import undashed
from autopush.webpush.tokens import Endpoint, EndpointTokens, KeyRing
from keytables import KeytablesError, TableNotFound

# ── The command ───────────────────────────────────────────────────────────────────────────────────

MAX_LISTED: Final = 50
"""Channels printed; `--json` lists all."""

NO_ENDPOINT: Final = "Not a valid endpoint"
INVALID_TOKEN: Final = "Invalid Token"  # noqa: S105 - what the original prints
NOT_FOUND: Final = "Not Found"


def diagnose(settings: Settings, arguments: argparse.Namespace) -> int:
    """Returns 1 if the URL is no endpoint of this service, its user is gone or the store failed."""
    url = parse_endpoint_url(arguments.url)
    if url is None:
        logs.print_error(NO_ENDPOINT)
        return INCOMPLETE
    if not (settings.crypto_key or key_file(settings.data, "crypto_key").exists()):
        check_store_exists(settings)  # the clearer message for a wrong data folder
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
    user = node = None
    if endpoint is not None:
        try:
            user = await _inspect(settings, endpoint, now)
        except KeytablesError as error:
            logs.print_error(f"the store {settings.store_place} failed: {error}")
            return INCOMPLETE
        if user is not None:
            node = await _ask_node(settings, keys, user)
    bridges = configured_routers(settings)
    facts = Facts(url=url, endpoint=endpoint, user=user, node=node, bridges=bridges)
    if as_json:
        print(json.dumps(to_document(facts, now), indent=2))
    else:
        print("\n".join(to_lines(facts, now)))
    if endpoint is None:
        logs.print_error(INVALID_TOKEN)
    elif facts.user is None:
        logs.print_error(NOT_FOUND)
    else:
        return 0
    return INCOMPLETE


async def _inspect(settings: Settings, endpoint: Endpoint, now: float) -> UserInspection | None:
    async with opened_engine(settings, time.time, is_named=True) as engine:
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
) -> Outcome | None:
    """What the node of the user says, within `request_timeout` seconds; None without one."""
    if user.record is None or not (node_ids := _nodes_to_ask(settings, user.record)):
        return None
    try:
        tls = ClientTls(settings.router_ssl_ca)
    except TlsFileError as error:
        raise StartupError(f"router_ssl_ca: {error}") from None
    wheel = TimerWheel(asyncio.get_running_loop())
    nodes = Nodes(
        "",
        Answering(Registry(time.time), KeyRing(keys)),
        wheel,
        unshared_metrics(METRICS),
        keys=node_keys(keys),
        connect_timeout=settings.connection_timeout,
        request_timeout=settings.request_timeout,
        tls=tls,
    )
    try:
        outcomes = [await nodes.find_connection(each, user.record.uaid) for each in node_ids]
    finally:
        nodes.close()
        wheel.close()
    if user.record.node_id is None and Outcome.DONE not in outcomes:
        return None
    return next((each for each in (Outcome.DONE, Outcome.ABSENT) if each in outcomes), outcomes[0])


def _nodes_to_ask(settings: Settings, record: UserRecord) -> list[str]:
    """The node on record. On an embedded store, where a connection need not be recorded, whichever
    worker is there now, or at the router port: each asks the owner of the user.
    """
    if not settings.is_embedded:
        return [] if record.node_id is None else [record.node_id]
    bases = {settings.node_url(settings.router_port): None}
    if record.node_id is not None:
        place = urlsplit(record.node_id)
        bases = {f"{place.scheme}://{place.netloc}": None, **bases}
    return [instance_url(base, ANY_INSTANCE) for base in bases]


# ── Output ────────────────────────────────────────────────────────────────────────────────────────


def to_lines(facts: Facts, now: float) -> list[str]:
    """The report as text; it begins like that of the original. `now`: ages are relative to it."""
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
            lines += [*_table_lines(table, endpoint.channel_id, now), ""]
        if user.missing_table:
            lines += [f"Message table {user.missing_table}: there is none", ""]
        if facts.node is not None and user.record is not None:
            node = user.record.node_id or "of this service"
            lines += [f"Node {node}: {_NODE_WORDS[facts.node]}", ""]
    rule, text = judge(facts)
    return [*lines, f"{HEADLINES[rule.arrival]}: {rule.title}", text]


_NODE_WORDS: Final = {
    Outcome.DONE: "the user agent is connected there",
    Outcome.BUSY: "it answers, but not to this question",
    Outcome.ABSENT: "the user agent is not connected there",
    Outcome.GONE: "it is gone: another process has its place",
    Outcome.REFUSED: "nothing listens there now, or no host has that name",
    Outcome.SILENT: "no answer; the node may be slow, stopped, cut off or overloaded",
}


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
        words.append(f"stored {span(now - pending.oldest)} to {span(now - pending.newest)} ago")
    if pending.expired:
        words.append(f"and {pending.expired:,} expired")
    return [*lines, ", ".join(words)]


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "an endpoint URL of this service; its host does not matter"
    parser.add_argument("url", metavar="URL", help=about)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


COMMANDS: Final = {"diagnose": CommandLine(diagnose, _add_arguments, "URL")}
