"""`autopush check`: is the embedded store damaged, and what is to be done?

It changes nothing. While the service runs it reads what is committed; the log, which holds the
newest transactions, is checked only of a store that no process has open.
"""

import argparse
import json
import os
from collections.abc import Sequence
from time import monotonic
from typing import Final

from autopush.commands.backup import embedded_store
from autopush.commands.running import INCOMPLETE
from autopush.settings import Settings, StartupError
from keytables import KeytablesError
from keytables.sqlite import StoreCheck, check_store

RESTORE: Final = (
    "Stop the service, restore the newest backup (autopush restore --force BACKUP), start it: what "
    "was stored since then is lost, and the damaged store is kept beside it"
)
LOST_TRANSACTIONS: Final = (
    "What cannot be read of the log is dropped when the service starts: messages that were "
    "accepted last, and acks. Nothing is to be done, unless a table is damaged too"
)
NOT_READ: Final = "Run it again without --timeout"
LOG_NOT_CHECKED: Final = "its log was not checked, as a process has it open"


def check(settings: Settings, arguments: argparse.Namespace) -> int:
    """Check the store and print the result; exit code 1: damaged, or not all of it was read.

    Raises:
        StartupError: there is no embedded store, or it cannot be read.
    """
    store = embedded_store(settings, "check")
    if not store.exists():
        raise StartupError(f"there is no store at {store}")
    began = monotonic()
    try:
        found = check_store(store, timeout=arguments.timeout or float("inf"))
    except KeytablesError as error:
        raise StartupError(str(error)) from error
    seconds = monotonic() - began
    if arguments.json:
        print(json.dumps({"store": str(store), **to_document(found)}, indent=2))
    else:
        notes = [f"{os.stat(store).st_size / 1e6:,.1f} MB", f"{seconds:.1f} s"]
        if found.is_in_use:
            notes.append(LOG_NOT_CHECKED)
        elif found.is_unclean:
            notes.append("its last user did not close it")
        print(f"{store}: {_verdict(found)}; {'; '.join(notes)}")
        for text in (*(f"damaged: {damage}" for damage in found.damage), *advice(found)):
            print(text)
    return 0 if found.is_complete and not found.damage else INCOMPLETE


def to_document(found: StoreCheck) -> dict[str, object]:
    """What `--json` prints, beside the store."""
    return {
        "ok": found.is_complete and not found.damage,
        "damage": list(found.damage),
        "complete": found.is_complete,
        "unclean": found.is_unclean,
        "in_use": found.is_in_use,
        "advice": advice(found),
    }


def advice(found: StoreCheck) -> Sequence[str]:
    """What to do, a sentence each."""
    texts = []
    if any(damage != found.log_damage for damage in found.damage):
        texts.append(RESTORE)
    if found.log_damage:
        texts.append(LOST_TRANSACTIONS)
    if not found.is_complete:
        texts.append(NOT_READ)
    return texts


def _verdict(found: StoreCheck) -> str:
    if found.damage:
        return "damaged"
    return "not damaged" if found.is_complete else "no damage found in the part that was read"
