"""Libraries of application servers in other languages, unchanged, as programs (`tests/senders`)."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from autopush.testing.client import VapidKey
from support.paths import TOOLS
from support.tools import give_up, need

SENDERS = TOOLS / "senders"
TIMEOUT = 30.0


def node() -> list[str]:
    script = SENDERS / "node/send.js"
    if not script.exists():
        give_up("needs web-push of Node (install npm, then make tools)")
    return [need("node", "apt-get install nodejs"), str(script)]


def compiled(name: str, library: str, install: str) -> list[str]:
    """May be missing in CI too: Debian's Go is too old for the library, and Rust compiles for some
    minutes.
    """
    program = shutil.which(str(SENDERS / name))
    if program is None:
        pytest.skip(f"needs {library} ({install})")
    return [program]


def go() -> list[str]:
    return compiled("go", "webpush-go", "install go 1.22, then make tools")


def rust() -> list[str]:
    return compiled("rust", "web-push of Rust", "install cargo, then make .tools/senders/rust")


PROGRAMS = (node, go, rust)


def send(
    program: list[str],
    trusted: Path,
    subscription: dict[str, Any],
    key: VapidKey,
    *,
    ttl: int = 60,
    **more: Any,
) -> str:
    """The status that the library reports. `trusted`: PEM file of a CA; `subscription`: as a page
    gives it.
    """
    wanted = {
        "subscription": subscription,
        "ttl": ttl,
        "publicKey": key.public,
        "privateKey": key.private,
        **more,
    }
    done = subprocess.run(
        program,
        input=json.dumps(wanted),
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(program[-1]).parent,
        env=os.environ | dict.fromkeys(("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"), str(trusted)),
        timeout=TIMEOUT,
        check=False,
    )
    return done.stdout.strip()
