"""The installed version, which is written in `pyproject.toml` only, and how to add extras."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("autopush-server")
except PackageNotFoundError:  # run from a source tree that was never installed
    VERSION = "0+unknown"


def how_to_install(extra: str) -> str:
    """The command that adds an extra, for error texts."""
    return f"pip install 'autopush-server[{extra}]', or in a checkout: make extras"
