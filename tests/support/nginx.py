"""nginx for tests: the recipe of `deploy/`, with the addresses and files of one test.

Rule: only addresses, ports, the host name and paths are replaced, the rest is as it is shipped.
"""

import contextlib
import getpass
import re
import socket
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from support.certificates import LOOPBACK, Authority, CertificateFiles
from support.paths import ROOT
from support.service import Service
from support.sockets import unused_port
from support.tools import need

RECIPE: Final = ROOT / "deploy" / "nginx.conf"
INSTALL: Final = "apt-get install --no-install-recommends nginx-light"
TIMEOUT: Final = 30

_MAIN: Final = """
user {user};
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr notice;
events {{ worker_connections 512; }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/autopush.conf;
}}
"""


def find_nginx() -> str:
    """The path of nginx; without one the test is skipped, and fails where CI is `true`."""
    return need("nginx", INSTALL, "nginx", "/usr/sbin/nginx")


class Nginx:
    """Speaks TLS on `port`, in front of a service that listens on the two other ports.

    `other_endpoint_ports`: of further endpoint daemons, for each of which there is a line like the
    first one's.
    """

    def __init__(
        self,
        folder: Path,
        files: CertificateFiles,
        *,
        websocket_port: int,
        endpoint_port: int,
        other_endpoint_ports: Sequence[int] = (),
        port: int = 0,
    ) -> None:
        self._program = find_nginx()
        self.folder = folder
        self.port = port or unused_port()
        self.plain_port = unused_port()
        """Where it leads to https."""
        values = {
            r"push\.example\.org": LOOPBACK,
            r"/etc/letsencrypt/live/\S+/fullchain\.pem": str(files.certificate),
            r"/etc/letsencrypt/live/\S+/privkey\.pem": str(files.key),
            r"127\.0\.0\.1:8080": f"{LOOPBACK}:{websocket_port}",
            r"127\.0\.0\.1:8082": f"{LOOPBACK}:{endpoint_port}",
            r"listen \[::\].*": "",
            r"listen 80;": f"listen {LOOPBACK}:{self.plain_port};",
            r"listen 443 ": f"listen {LOOPBACK}:{self.port} ",
        }
        text = re.sub(r"^\s*#.*$", "", RECIPE.read_text("utf-8"), flags=re.MULTILINE)
        # Paths first: they hold the host name.
        for pattern in sorted(values, key=lambda pattern: "letsencrypt" not in pattern):
            text, count = re.subn(pattern, values[pattern], text)
            assert count, f"the recipe has no {pattern}"
        first = f"server {LOOPBACK}:{endpoint_port} "
        [line] = [line for line in text.splitlines() if first in line]
        for other in other_endpoint_ports:
            text = text.replace(line, f"{line}\n{line.replace(str(endpoint_port), str(other))}")
        (folder / "autopush.conf").write_text(text)
        main = folder / "nginx.conf"
        main.write_text(_MAIN.format(user=getpass.getuser(), folder=folder))
        self._words = [self._program, "-e", "stderr", "-p", str(folder), "-c", str(main)]
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self.log: list[str] = []

    def check(self) -> str:
        """What `nginx -t` says of the recipe; it must accept it."""
        checked = subprocess.run(
            [*self._words, "-t"], capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        assert checked.returncode == 0, checked.stderr
        return checked.stderr

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        listening = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self._process, listening))
        self._reader.start()
        assert listening.wait(TIMEOUT), "".join(self.log)
        # Its sockets listen since before that line: this waits for nothing.
        with contextlib.closing(socket.create_connection((LOOPBACK, self.port), TIMEOUT)):
            return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._reader is not None
        self._process.terminate()
        try:
            self._process.wait(TIMEOUT)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()

    def _read(self, process: "subprocess.Popen[str]", listening: threading.Event) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self.log.append(line)
                if "start worker process " in line:
                    listening.set()
        listening.set()  # it has ended, and the log says why

    @property
    def complaints(self) -> list[str]:
        """Lines of its log at level warning or above."""
        return [line for line in self.log if re.search(r"\[(warn|error|crit|alert|emerg)\]", line)]


@dataclass
class Site:
    """A service and the nginx in front of it, as user agents and application servers see them."""

    service: Service
    nginx: Nginx
    authority: Authority
    files: CertificateFiles

    @property
    def https(self) -> str:
        return f"https://{LOOPBACK}:{self.nginx.port}"

    @property
    def wss(self) -> str:
        return f"wss://{LOOPBACK}:{self.nginx.port}"
