"""`autopush keys`: `rotate` puts a new key first, `accept` keeps a store whose key is lost."""

import argparse
import time
from collections.abc import Sequence
from typing import Final

from autopush.commands import CommandLine
from autopush.commands.arguments import add_dry_run
from autopush.commands.running import opened_engine, run_until_signal
from autopush.console.audit import note_command
from autopush.keys import (
    Rotation,
    ServiceKeys,
    key_file,
    key_fingerprints,
    rotate_key,
    save_keys,
    service_keys,
)
from autopush.service.storage import table_plan
from autopush.settings import Settings, StartupError
from autopush.store.preflight import accept_keys
from keytables import KeytablesError

ROTATED: Final = {
    "crypto_key": "Restart the service. From then on new endpoint URLs are made with the new key; "
    "those made before stay valid while the old keys are in the file.",
    "auth_key": "Restart the service. From then on new secrets are signed with the new key; those "
    "signed before stay valid while the old keys are in the file.",
}
SEVERAL_NODES: Final = {
    "crypto_key": "Several nodes: all of them must accept the key before one of them uses it, or a "
    "node refuses endpoints that another one has just made (404, and senders delete the "
    "subscription).",
    "auth_key": "Several endpoint nodes: all of them must accept the key before one of them uses "
    "it, or one refuses secrets that another one has just signed (401).",
}


def keys(settings: Settings, arguments: argparse.Namespace) -> int:
    return (accept if arguments.action == "accept" else rotate)(settings, arguments)


def rotate(settings: Settings, arguments: argparse.Namespace) -> int:
    """Rotate a key file of the data folder and print what is left to do; old keys stay valid."""
    name: str = arguments.name
    configured: Sequence[str] = getattr(settings, name)
    if configured:
        place = settings.sources[name].of(name)
        raise StartupError(
            f"{name} is not kept in the data folder but given by {place}: change "
            f"it there. First append a new key (from autokey) to the list on every node and "
            f"restart them, then move it to the front on every node and restart them again"
        )
    path = key_file(settings.data, name)
    if not path.exists():
        raise StartupError(f"there is no {path}: the first start of the service creates it")
    if not arguments.dry_run:
        note_command(settings.data, "keys rotate", name=name, prepare=arguments.prepare)
    rotation = rotate_key(settings.data, name, prepare=arguments.prepare, dry_run=arguments.dry_run)
    print("\n".join(_describe(name, rotation, arguments)))
    return 0


def accept(settings: Settings, arguments: argparse.Namespace) -> int:
    """Record the current crypto keys in the store, whichever its subscriptions were made with.

    Creates a missing key file.
    """
    if arguments.name != "crypto_key" or arguments.prepare:
        raise StartupError("keys accept: the store knows the crypto_key only; it has no --prepare")
    keys = service_keys(settings.crypto_key, (), settings.data, auth_needed=False)
    if not arguments.dry_run:
        note_command(settings.data, "keys accept")
    return run_until_signal(_accept(settings, keys, dry_run=arguments.dry_run))


async def _accept(settings: Settings, keys: ServiceKeys, *, dry_run: bool) -> int:
    async with opened_engine(settings, time.time) as engine:
        if not dry_run:
            keys = save_keys(keys)
            for path in keys.made:
                print(f"created {path}; keep a copy in a safe place")
        fingerprints = key_fingerprints(keys.crypto)
        try:
            added = await accept_keys(engine, table_plan(settings), fingerprints, dry_run=dry_run)
        except KeytablesError as error:
            raise StartupError(f"the store {settings.store_place} failed: {error}") from error
    if not added:
        print(f"{settings.store_place} knows the crypto_key already; nothing to do")
        return 0
    verb = "would accept" if dry_run else "accepts"
    print(
        f"{settings.store_place} {verb} the present crypto_key. Subscriptions made with a key that "
        "is not in crypto_key stay lost: their senders get 404. User agents do not notice; those "
        "of a new, empty store do, and subscribe again."
    )
    return 0


def _describe(name: str, rotation: Rotation, arguments: argparse.Namespace) -> list[str]:
    verb = "would put" if arguments.dry_run else "put"
    which = "the prepared key" if rotation.was_prepared else "a new key"
    place = "last" if arguments.prepare else "first"
    others = rotation.before - rotation.was_prepared
    kept = "1 other key stays" if others == 1 else f"{others} other keys stay"
    lines = [f"{verb} {which} {place} in {rotation.path}; {kept} accepted"]
    if arguments.dry_run:
        return lines
    if arguments.prepare:
        lines.append(
            "Give every node this file, and restart all of them: they accept the new key and do "
            f"not use it. Then run `autopush keys rotate {name}`."
        )
        return lines
    lines.append(ROTATED[name])
    if rotation.was_prepared:
        lines.append("Give every node this file; they may be restarted in any order.")
    else:
        lines.append(
            f"{SEVERAL_NODES[name]} So stop all, give them this file, and start them. To keep them "
            "running instead, begin with `autopush keys rotate --prepare`."
        )
    return [*lines, f"Back up {rotation.path}."]


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    about = (
        "rotate: put a new key first; the old ones stay accepted. accept: let the service start "
        "with a store whose crypto_key is lost; its subscriptions stay lost"
    )
    actions = ("rotate", "accept")
    parser.add_argument("action", choices=actions, metavar="rotate|accept", help=about)
    names = ("crypto_key", "auth_key")
    about = "which key [default: crypto_key]"
    parser.add_argument("name", nargs="?", choices=names, default=names[0], help=about)
    group = add_dry_run(parser)
    about = "put the new key last: nodes accept it, and use it after the next rotation"
    group.add_argument("--prepare", action="store_true", help=about)


COMMANDS: Final = {"keys": CommandLine(keys, _add_arguments, "rotate|accept [crypto_key|auth_key]")}
