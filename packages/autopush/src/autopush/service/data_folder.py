"""The data folder: it has the embedded store, and the keys that are made at the first start."""

import os
from pathlib import Path

from autopush.settings import StartupError


def prepare_data_folder(folder: Path) -> None:
    """Create the folder, for its owner only, unless it exists.

    :raises StartupError: it cannot be made, or as `check_folder`
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:  # something that is no folder
        pass
    except OSError as error:
        raise StartupError(f"data: cannot make {folder}: {error.strerror}") from None
    check_folder(folder)


def check_folder(folder: Path) -> None:
    """:raises StartupError: it is not a folder, or this user may not write it"""
    if folder.is_symlink() and not folder.exists():
        raise StartupError(f"data: {folder} is a dangling link to {folder.readlink()}")
    if not folder.is_dir():
        raise StartupError(f"data: {folder} is not a folder")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise StartupError(f"data: {folder} may not be written by this user")
