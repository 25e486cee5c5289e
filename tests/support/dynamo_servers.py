"""Databases that speak DynamoDB's protocol, as processes of their own for tests.

One process of each kind serves all tests of a run, in memory, on a free port of loopback. It
ends with the run, however that ends.
"""

import atexit
import functools
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from support.paths import TOOLS
from support.sockets import unused_port
from support.tools import end_kept, need, start_kept

START_TIMEOUT = 60

# It sweeps every minute, by the clock on the wall, items with an expiry of 0 too: DynamoDB lets
# alone what expired years ago.
WITHOUT_SWEEPS = """
import threading
start = threading.Thread.start
threading.Thread.start = lambda each: each.name == "dynamodb-ttl-reaper" or start(each)
from ministack.app import main
main()
"""


@functools.cache
def ministack() -> str:
    """The URL of the run's ministack."""
    port, python = unused_port(), TOOLS / "ministack/bin/python"
    return _started(
        "ministack",
        port,
        [need("ministack", "make servers", str(python)), "-c", WITHOUT_SWEEPS],
        {
            "GATEWAY_PORT": str(port),
            "BIND_HOST": "127.0.0.1",
            "SERVICES": "dynamodb",
            "LOG_LEVEL": "ERROR",
        },
    )


def dynalite_program() -> str:
    """The path of dynalite, and node is there that runs it."""
    install = "install npm, then make servers"
    need("dynalite", install, "node")
    return need("dynalite", install, str(TOOLS / "dynalite/node_modules/.bin/dynalite"))


@functools.cache
def dynalite() -> str:
    """The URL of the run's dynalite."""
    port = unused_port()
    delays = [
        option for name in ("create", "delete", "update") for option in (f"--{name}TableMs", "0")
    ]
    return _started(
        "dynalite",
        port,
        [dynalite_program(), "--host", "127.0.0.1", "--port", str(port), *delays],
        {},
    )


def _started(name: str, port: int, command: list[str], variables: Mapping[str, str]) -> str:
    folder = tempfile.TemporaryDirectory(prefix=f"{name}-")
    log = Path(folder.name) / "log"
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    with log.open("wb") as output:
        process = start_kept(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder.name,
            env={**kept, "TMPDIR": folder.name, "AWS_EC2_METADATA_DISABLED": "true", **variables},
        )

    def end() -> None:
        end_kept(process)
        folder.cleanup()

    atexit.register(end)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_TIMEOUT
    while not _answers(url):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{name} did not start: {log.read_text(errors='replace')}")
        time.sleep(0.05)
    return url


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
