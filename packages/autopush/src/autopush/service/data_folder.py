"""The folder everything is kept in: made when missing, checked before anything else happens."""

import os
from pathlib import Path

from autopush.settings import StartupError


def prepare(folder: Path) -> None:
    """Make the folder, for its owner only, unless it is there.

    :raises StartupError: it cannot be made, is no folder, or may not be written
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise StartupError(f"the data folder {folder} is not a folder") from None
    except OSError as error:
        raise StartupError(f"cannot make the data folder {folder}: {error.strerror}") from None
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise StartupError(f"the data folder {folder} may not be written by this user")
