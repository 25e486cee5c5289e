"""`autopush user`: who may connect, where accounts are required.

Rule: a token is printed once, by `add` and alone on standard output, and can be found nowhere
afterwards.
"""

import argparse
import time
from datetime import UTC, datetime
from typing import Final

from autopush.commands import CommandLine
from autopush.commands.arguments import add_number
from autopush.commands.running import (
    INCOMPLETE,
    check_tables_exist,
    opened_engine,
    run_until_signal,
)
from autopush.service.storage import table_plan
from autopush.settings import Settings, StartupError
from autopush.store.accounts import AccountError, Accounts
from autopush.store.tables import router_table
from autopush.telemetry import logs
from keytables import KeytablesError


def run(settings: Settings, arguments: argparse.Namespace) -> int:
    return run_until_signal(_run(settings, arguments))


async def _run(settings: Settings, arguments: argparse.Namespace) -> int:
    async with opened_engine(settings, time.time, is_named=True) as engine:
        await check_tables_exist(engine, settings)
        try:
            router = await engine.open_table(router_table(table_plan(settings).router))
            await _act(Accounts(router, time.time), arguments)
        except AccountError as error:
            logs.print_error(str(error))
            return INCOMPLETE
        except KeytablesError as error:
            raise StartupError(f"the store {settings.store_place}: {error}") from error
    return 0


async def _act(accounts: Accounts, arguments: argparse.Namespace) -> None:
    name, connections = arguments.name or "", arguments.connections
    match arguments.action:
        case "add":
            print(await accounts.add(name, connections or 0))
        case "revoke":
            await accounts.revoke(name)
            print(f"revoked {name}; sessions end within seconds")
        case "quota":
            await accounts.set_quota(name, connections or 0)
            print(f"{name}: {_quota(connections or 0)}")
        case _:
            for account in (await accounts.read()).values():
                since = datetime.fromtimestamp(account.created_at, UTC).strftime("%Y-%m-%d")
                print(f"{account.name}  since {since}, {_quota(account.connections)}")


def _quota(connections: int) -> str:
    return f"{connections} connections at once" if connections else "no quota"


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    about = (
        "add: a user, and print its token, which is shown this once and ends the WebSocket URL; "
        "list: all users; revoke: end a user's sessions, and admit it no more; quota: set "
        "--connections"
    )
    actions = ("add", "list", "revoke", "quota")
    parser.add_argument("action", choices=actions, metavar="add|list|revoke|quota", help=about)
    about = "of the user: 1 to 64 of A-Z a-z 0-9 . _ @ -"
    parser.add_argument("name", metavar="NAME", nargs="?", help=about)
    group = parser.add_argument_group("What to do")
    about = "connections that the user may have at once at a node; 0 sets no limit [default: 0]"
    add_number(group, "--connections", None, (0, 1_000_000), about)


USAGE: Final = "add|list|revoke|quota [NAME] [--connections N]"
COMMANDS: Final = {"user": CommandLine(run, _add_arguments, USAGE)}
