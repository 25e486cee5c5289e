"""`autopush user`: who may connect, where accounts are required.

Rule: a token is shown once, by `add` and `renew`, and can be found nowhere afterwards. A terminal
gets the link and its QR code; what is not one, such as a script, the token alone.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from autopush.commands import CommandLine
from autopush.commands.arguments import add_number
from autopush.commands.running import (
    INCOMPLETE,
    check_tables_exist,
    opened_engine,
    run_until_signal,
)
from autopush.console.audit import note_command
from autopush.console.invitation import Invitation, new_page
from autopush.service.storage import table_plan
from autopush.settings import Settings, StartupError
from autopush.settings.addresses import is_loopback
from autopush.store.accounts import AccountError, Accounts
from autopush.store.tables import router_table
from autopush.telemetry import logs
from keytables import AccessRefused, KeytablesError

DAY: Final = 86_400


def run(settings: Settings, arguments: argparse.Namespace) -> int:
    return run_until_signal(_run(settings, arguments))


async def _run(settings: Settings, arguments: argparse.Namespace) -> int:
    async with opened_engine(settings, time.time, is_named=True) as engine:
        await check_tables_exist(engine, settings)
        try:
            router = await engine.open_table(router_table(table_plan(settings).router))
            if arguments.action != "list":
                note_command(
                    settings.data, f"user {arguments.action}", name=(arguments.name or "")[:64]
                )
            await _act(Accounts(router, time.time), settings, arguments)
        except AccountError as error:
            logs.print_error(str(error))
            return INCOMPLETE
        except KeytablesError as error:
            raise StartupError(f"the store {settings.store_place}: {error}") from error
    return 0


async def _act(accounts: Accounts, settings: Settings, arguments: argparse.Namespace) -> None:
    name, connections = arguments.name or "", arguments.connections
    expires_at = None
    if arguments.days is not None:
        expires_at = int(time.time()) + DAY * arguments.days if arguments.days else 0
    match arguments.action:
        case "add":
            make = partial(accounts.add, name, connections or 0, expires_at=expires_at or 0)
            await _hand_out(make, accounts, settings, arguments)
        case "renew":
            make = partial(accounts.renew, name, expires_at=expires_at)
            await _hand_out(make, accounts, settings, arguments)
        case "expire":
            if expires_at is None:
                raise AccountError("expire needs --days, 0 for never")
            await accounts.set_expiry(name, expires_at)
            print(f"{name}: {_expiry(expires_at)}")
        case "revoke":
            await accounts.revoke(name)
            print(f"revoked {name}; sessions end within seconds")
        case "quota":
            await accounts.set_quota(name, connections or 0)
            print(f"{name}: {_quota(connections or 0)}")
        case _:
            await _list(accounts)


async def _hand_out(
    make: Callable[[], Awaitable[str]],
    accounts: Accounts,
    settings: Settings,
    arguments: argparse.Namespace,
) -> None:
    """Make a token, and print what its user needs."""
    with new_page(arguments.page) if arguments.page else nullcontext() as page:
        token = await make()
        account = (await accounts.read())[arguments.name]
        expires = _date(account.expires_at) if account.expires_at else ""
        url = replace(settings, command="serve").public_websocket_url
        is_shown = page is not None or sys.stdout.isatty()
        if is_shown and is_loopback(urlsplit(url).hostname or ""):
            advice = "give endpoint_url, as the service has it, for one that users reach"
            logs.print_error(f"the link begins with the address of this machine: {advice}")
        invitation = Invitation(account.name, url, token, expires)
        if sys.stdout.isatty():
            invitation.print_on(sys.stdout)
        else:
            print(token)
        if page is not None:
            page.write(invitation.page())


async def _list(accounts: Accounts) -> None:
    known = await accounts.read()
    devices: Counter[str] | None = None
    with suppress(AccessRefused):  # a role for the service alone may not scan
        devices = await accounts.devices() if known else None
    for account in known.values():
        parts = [f"since {_date(account.created_at)}", _quota(account.connections)]
        if devices is not None:
            number = devices[account.name]
            parts.append("1 device" if number == 1 else f"{number} devices")
        if account.expires_at:
            parts.append(_expiry(account.expires_at))
        print(f"{account.name}  {', '.join(parts)}")


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _expiry(expires_at: int) -> str:
    if not expires_at:
        return "does not expire"
    verb = "expires" if expires_at > time.time() else "expired"
    return f"{verb} {_date(expires_at)}"


def _quota(connections: int) -> str:
    return f"{connections} connections at once" if connections else "no quota"


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    about = (
        "add: a user, and show the link with its token this once; renew: another token, with which "
        "its devices go on; expire: set --days; list: all users, and how many devices they have; "
        "quota: set --connections; revoke: end a user's sessions, and admit it no more"
    )
    names = "|".join(ACTIONS)
    parser.add_argument("action", choices=ACTIONS, metavar=names, help=about)
    about = "of the user: 1 to 64 of A-Z a-z 0-9 . _ @ -"
    parser.add_argument("name", metavar="NAME", nargs="?", help=about)
    group = parser.add_argument_group("What to do")
    about = "connections that the user may have at once at a node; 0 sets no limit [default: 0]"
    add_number(group, "--connections", None, (0, 1_000_000), about)
    about = "days until the token ends; 0 never [default: never, or with renew as before]"
    add_number(group, "--days", None, (0, 36_500), about)
    about = "with add and renew: write a page for the user, with the link and its QR code, to FILE"
    group.add_argument("--page", metavar="FILE", help=about)


ACTIONS: Final = ("add", "renew", "expire", "list", "quota", "revoke")
USAGE: Final = f"{'|'.join(ACTIONS)} [NAME] [--connections N] [--days N] [--page FILE]"
COMMANDS: Final = {"user": CommandLine(run, _add_arguments, USAGE)}
