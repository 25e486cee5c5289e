"""Secrets that the program makes for itself, in the data folder.

Rule: only the owner of the folder can read them; they are made once and never change.
"""

import os
from pathlib import Path
from typing import Final

from channelstats.commands.call import Failure
from channelstats.reports.anonymous import SHORTEST_SECRET
from channelstats.settings import Settings

_SECRET: Final = 32
"""Bytes."""


def pseudonym_secret(settings: Settings) -> bytes:
    """The secret of pseudonyms."""
    if settings.anonymize_secret_file:
        secret = Path(settings.anonymize_secret_file).expanduser().read_bytes().strip()
        if len(secret) < SHORTEST_SECRET:
            raise Failure(f"the secret of pseudonyms: expected {SHORTEST_SECRET} bytes or more")
        return secret
    return kept_secret(settings.folder, "anonymize.secret")


def kept_secret(folder: Path, name: str) -> bytes:
    """The secret of a name, made when there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_bytes()
    secret = os.urandom(_SECRET)
    with os.fdopen(made, "wb") as file:
        file.write(secret)
    return secret
