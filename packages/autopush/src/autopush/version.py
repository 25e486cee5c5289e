"""The version of the installed package, looked up once.

Rule: `pyproject.toml` is the only place where the version is written down.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("autopush-server")
except PackageNotFoundError:  # run from a source tree that was never installed
    VERSION = "0+unknown"
