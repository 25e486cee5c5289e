"""The secret of pseudonyms.

Rule: it is the operator's, or one that the program makes once and keeps in the data folder.
"""

import os
from pathlib import Path
from typing import Final

from channelstats.commands.call import Failure
from channelstats.privacy.pseudonyms import SHORTEST_SECRET
from channelstats.settings import Settings
from channelstats.settings.kept_files import kept_file

FILE: Final = "anonymize.secret"

_SECRET: Final = 32
"""Bytes."""


def pseudonym_secret(settings: Settings) -> bytes:
    if settings.anonymize_secret_file:
        path = Path(settings.anonymize_secret_file).expanduser()
        secret = path.read_bytes().strip()
    else:
        path = settings.folder / FILE
        secret = kept_file(settings.folder, FILE, lambda: os.urandom(_SECRET))
    if len(secret) < SHORTEST_SECRET:
        raise Failure(f"{path}: the secret of pseudonyms: expected {SHORTEST_SECRET} bytes or more")
    return secret
