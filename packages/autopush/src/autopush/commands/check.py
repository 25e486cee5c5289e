"""`autopush check`: reads the whole store; of an embedded one also what is around the tables."""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from autopush.commands import CommandLine
from autopush.commands.arguments import add_number
from autopush.commands.running import (
    INCOMPLETE,
    check_store_exists,
    opened_engine,
    progress_bar,
    run_until_signal,
)
from autopush.service.storage import table_plan
from autopush.settings import Settings, StartupError
from autopush.store.copying import service_tables
from keytables import KeytablesError, SchemaError, StoreDamaged
from keytables.copying import pages
from keytables.sqlite import StoreCheck, check_store
from keytables.sqlite.layout import part_files

RESTORE: Final = (
    "Stop the service, restore the newest backup (autopush restore --force BACKUP), start it: what "
    "was stored since then is lost, and the damaged store is kept beside it"
)
RESTORE_DATABASE: Final = (
    "Stop the service, and restore a backup of the database: what was stored since then is lost"
)
LOST_TRANSACTIONS: Final = (
    "What cannot be read of the log is dropped when the service starts: messages that were "
    "accepted last, and acks. Nothing is to be done, unless a table is damaged too"
)
NOT_READ: Final = "Run it again without --timeout"
LOG_NOT_CHECKED: Final = "its log was not checked, as a process has it open"


def check(settings: Settings, arguments: argparse.Namespace) -> int:
    """Returns 1 if the store is damaged or was not read completely."""
    check_store_exists(settings)
    if (path := settings.store_file) is not None:
        return _check_files(Path(path), arguments)
    return run_until_signal(_check_tables(settings, arguments))


def _check_files(store: Path, arguments: argparse.Namespace) -> int:
    began = monotonic()
    try:
        result = check_store(store, timeout=arguments.timeout or float("inf"))
    except KeytablesError as error:
        raise StartupError(str(error)) from error
    files = [store, *(file.path for file in part_files(str(store)) if file.has_rows)]
    size = sum(file.stat().st_size for file in files)
    notes = [f"{size / 1e6:,.1f} MB", f"{monotonic() - began:.1f} s"]
    if result.is_in_use:
        notes.append(LOG_NOT_CHECKED)
    elif result.is_unclean:
        notes.append("its last user did not close it")
    return _report(str(store), result, notes, arguments)


async def _check_tables(settings: Settings, arguments: argparse.Namespace) -> int:
    """Read every item that there is, as the service would."""
    began, items, is_complete = monotonic(), 0, False
    damage: list[str] = []
    with progress_bar(None, " items", quiet=arguments.json) as bar:
        try:
            async with opened_engine(settings, time.time) as engine:
                tables = service_tables(await engine.table_names(), table_plan(settings))
                async with asyncio.timeout(arguments.timeout):
                    for table in tables:
                        try:
                            async for page in pages(await engine.open_table(table)):
                                items += len(page)
                                bar.update(len(page))
                        except (StoreDamaged, SchemaError) as error:
                            damage.append(f"table {table.name!r}: {error}")
                    is_complete = True
        except TimeoutError:
            pass
        except KeytablesError as error:
            raise StartupError(f"the store {settings.store_place} failed: {error}") from error
    result = StoreCheck(damage=tuple(damage), is_complete=is_complete)
    notes = [f"{items:,} items", f"{monotonic() - began:.1f} s"]
    return _report(settings.store_place, result, notes, arguments, RESTORE_DATABASE)


def _report(
    store: str,
    result: StoreCheck,
    notes: Sequence[str],
    arguments: argparse.Namespace,
    restore: str = RESTORE,
) -> int:
    is_ok, what_to_do = result.is_complete and not result.damage, advice(result, restore)
    if arguments.json:
        document = {
            "store": store,
            "ok": is_ok,
            "damage": list(result.damage),
            "complete": result.is_complete,
            "unclean": result.is_unclean,
            "in_use": result.is_in_use,
            "advice": what_to_do,
        }
        print(json.dumps(document, indent=2))
    else:
        print(f"{store}: {_verdict(result)}; {'; '.join(notes)}")
        for text in (*(f"damaged: {damage}" for damage in result.damage), *what_to_do):
            print(text)
    return 0 if is_ok else INCOMPLETE


def advice(result: StoreCheck, restore: str) -> Sequence[str]:
    texts = []
    if not set(result.damage) <= set(result.log_damage):
        texts.append(restore)
    if result.log_damage:
        texts.append(LOST_TRANSACTIONS)
    if not result.is_complete:
        texts.append(NOT_READ)
    return texts


def _verdict(result: StoreCheck) -> str:
    if result.damage:
        return "damaged"
    return "not damaged" if result.is_complete else "no damage found in the part that was read"


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("What to do")
    about = "stop after so many seconds [default: read all of it]"
    add_number(group, "--timeout", None, (1, 1_000_000), about, "SECONDS")
    group.add_argument("--json", action="store_true", help="print one JSON object")


COMMANDS: Final = {"check": CommandLine(check, _add_arguments)}
