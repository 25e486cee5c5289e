"""Writing what a command made.

Rule: a reader never meets half a file.
"""

import sys
from pathlib import Path

from channelstats.render.data import Files
from channelstats.render.words import plural


def many(number: int, word: str) -> str:
    """1 message, 2,000 messages."""
    return f"{number:,} {plural(number, word)}"


def write_files(out: Path | None, name: str, files: Files) -> Path | None:
    """Write files under `out/name`, or without ``out`` the only one to standard output."""
    if out is None:
        sys.stdout.buffer.write(files[""])
        sys.stdout.flush()
        return None
    for part, data in files.items():
        path = out / name / part if part else out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_name(f".{path.name}.new")
        whole.write_bytes(data)
        whole.replace(path)
    return out / name
