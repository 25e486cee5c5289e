"""The version of the installed package, looked up once.

The version is written in `pyproject.toml` only.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("autopush-server")
except PackageNotFoundError:  # run from a source tree that was never installed
    VERSION = "0+unknown"
