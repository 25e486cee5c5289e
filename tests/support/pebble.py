"""Pebble, the ACME directory for tests of Let's Encrypt, and the DNS server that it asks.

Both are processes on loopback, built from `tests/pebble` by `make tools`.
"""

import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.certificates import LOOPBACK, Authority
from support.paths import TOOLS
from support.sockets import unused_port
from support.tools import end_kept, need, start_kept

FOLDER = TOOLS / "pebble"
INSTALL = "make .tools/pebble/pebble, with Go 1.25"
EAB_KID, EAB_KEY = "kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
START_TIMEOUT = 60
REFUSED = "refused.example"
"""A name for which it issues no certificate."""


class Pebble:
    """`url`: of the directory, whose CA is in the file `ca`. `http_port`: where it asks for answers
    to its challenges.
    """

    def __init__(self, folder: Path, http_port: int, *, needs_eab: bool = False) -> None:
        self.http_port = http_port
        self._authority = Authority(folder)
        self.ca = self._authority.path
        files = self._authority.issue(folder, LOOPBACK)
        port, management = unused_port(), unused_port()
        self.url = f"https://{LOOPBACK}:{port}/dir"
        self._management = f"https://{LOOPBACK}:{management}"
        self._dns, self._dns_management = unused_port(), unused_port()
        self._config = folder / "pebble.json"
        self._config.write_text(
            json.dumps(
                {
                    "pebble": {
                        "listenAddress": f"{LOOPBACK}:{port}",
                        "managementListenAddress": f"{LOOPBACK}:{management}",
                        "certificate": str(files.certificate),
                        "privateKey": str(files.key),
                        "httpPort": http_port,
                        "tlsPort": unused_port(),
                        "externalAccountBindingRequired": needs_eab,
                        "externalAccountMACKeys": {EAB_KID: EAB_KEY} if needs_eab else {},
                        "domainBlocklist": [REFUSED],
                        "keyAlgorithm": "ecdsa",
                        "profiles": {"default": {"description": "", "validityPeriod": 90 * 86_400}},
                    }
                }
            )
        )
        self._log = folder / "pebble.log"
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self) -> Iterator["Pebble"]:
        challtestsrv = need("pebble-challtestsrv", INSTALL, str(FOLDER / "pebble-challtestsrv"))
        dns = [challtestsrv, "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]
        dns += ["-dnsserver", f"{LOOPBACK}:{self._dns}", "-defaultIPv6", ""]
        dns += ["-management", f"{LOOPBACK}:{self._dns_management}"]
        with ExitStack() as stack, open(self._log, "ab") as log:
            stack.callback(end_kept, start_kept(dns, stdout=log, stderr=log))
            self.start()
            stack.callback(self.stop)
            yield self

    def start(self) -> None:
        """Forgets all accounts and orders of an earlier start."""
        pebble = need("pebble", INSTALL, str(FOLDER / "pebble"))
        command = [pebble, "-config", str(self._config), "-dnsserver", f"{LOOPBACK}:{self._dns}"]
        names = ("PEBBLE_WFE_NONCEREJECT", "PEBBLE_AUTHZREUSE")  # what it does by chance
        variables = dict.fromkeys(names, "0") | {"PEBBLE_VA_NOSLEEP": "1"}
        with open(self._log, "ab") as log:
            self._process = start_kept(command, stdout=log, stderr=log, env=os.environ | variables)
        _wait_until_answered(self.url, self.client())
        _wait_until_answered(f"http://{LOOPBACK}:{self._dns_management}/", None)

    def stop(self) -> None:
        if self._process is not None:
            end_kept(self._process)
            self._process = None

    def client(self) -> ssl.SSLContext:
        """Trusts the directory itself, not what it issues."""
        return self._authority.client()

    def issued(self) -> ssl.SSLContext:
        """Trusts what it issues."""
        return ssl.create_default_context(cadata=self.root())

    def root(self) -> str:
        """The CA of what it issues, PEM; another one after each start."""
        return _get(f"{self._management}/roots/0", self.client()).decode()


def _wait_until_answered(url: str, context: ssl.SSLContext | None) -> None:
    until = time.monotonic() + START_TIMEOUT
    while True:
        try:
            _get(url, context)
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def _get(url: str, context: ssl.SSLContext | None) -> bytes:
    with urllib.request.urlopen(url, timeout=30, context=context) as answer:
        body: bytes = answer.read()
        return body
