"""The version of the installed package, looked up once, and how its extras are installed.

The version is written in `pyproject.toml` only.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("autopush-server")
except PackageNotFoundError:  # run from a source tree that was never installed
    VERSION = "0+unknown"


def how_to_install(extra: str) -> str:
    """Return the command that adds an extra, for error texts."""
    return f"pip install 'autopush-server[{extra}]', or in a checkout: make extras"
