"""Reverse proxies for tests: the recipes of `deploy/`, with the addresses and files of one test.

Rule: only addresses, ports, the host name and paths are replaced, the rest is as it is shipped.
"""

import contextlib
import getpass
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Self

from support.certificates import LOOPBACK, Authority, CertificateFiles
from support.paths import ROOT
from support.service import Service
from support.sockets import unused_port
from support.tools import need, run_captured

TIMEOUT: Final = 30


class ReverseProxy:
    """Speaks TLS on `port`, in front of a service that listens on the two other ports."""

    name: ClassVar[str]
    install: ClassVar[str]
    """The command that installs the program."""
    recipe: ClassVar[Path]
    loaded: ClassVar[str]
    """A text in the line of the log after which it listens."""
    complaint: ClassVar[str]
    """A pattern of lines of its log at level warning or above."""

    def __init__(
        self, folder: Path, files: CertificateFiles, *, upstream: int, port: int = 0
    ) -> None:
        self._program = self.find()
        self.folder = folder
        self.files = files
        self.port = port or unused_port()
        self.plain_port = unused_port()
        """Where it redirects to https."""
        self.upstream = upstream
        """The port of the service."""
        self.log: list[str] = []
        self.complaints: list[str] = []
        """Lines of its log at level warning or above, up to its end."""
        self.configuration = folder / self.recipe.name
        self.configuration.write_text(self._adapted())

    @classmethod
    def find(cls) -> str:
        """Its path; where there is none the test is skipped, and fails where CI is `true`."""
        return need(cls.name, cls.install, cls.name, f"/usr/sbin/{cls.name}")

    def _replacements(self) -> dict[str, str]:
        """Patterns of the recipe and what stands there in a test, applied in this order."""
        raise NotImplementedError

    def _adapted(self) -> str:
        text = self.recipe.read_text("utf-8")
        for pattern, value in self._replacements().items():
            text, count = re.subn(pattern, value, text, flags=re.MULTILINE)
            assert count, f"the recipe has no {pattern}"
        return text

    def _run_words(self) -> list[str]:
        raise NotImplementedError

    def _check_words(self) -> list[str]:
        raise NotImplementedError

    def check(self) -> str:
        """What the program says when it checks the recipe; it must accept it."""
        checked = run_captured(self._check_words(), timeout=TIMEOUT, env=self._environment)
        assert checked.returncode == 0, checked.stderr
        return checked.stdout + checked.stderr

    @property
    def _environment(self) -> dict[str, str]:
        folder = str(self.folder)
        return {**os.environ, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder}

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._run_words(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        listening = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self._process, listening))
        self._reader.start()
        assert listening.wait(TIMEOUT), "".join(self.log)
        # Its sockets listen since before that line: this waits for nothing.
        with contextlib.closing(socket.create_connection((LOOPBACK, self.port), TIMEOUT)):
            return self

    def __exit__(self, *_: object) -> None:
        self.complaints = [line for line in self.log if re.search(self.complaint, line)]
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
                if self.loaded in line:
                    listening.set()
        listening.set()  # it has ended, and the log says why


class Nginx(ReverseProxy):
    name = "nginx"
    install = "apt-get install --no-install-recommends nginx-light"
    recipe = ROOT / "deploy" / "nginx.conf"
    loaded = "start worker process "
    complaint = r"\[(warn|error|crit|alert|emerg)\]"

    _MAIN: ClassVar[str] = """
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
    include {folder}/nginx.conf;
}}
"""

    def _replacements(self) -> dict[str, str]:
        return {
            r"^\s*#.*$": "",
            r"/etc/letsencrypt/live/\S+/fullchain\.pem": str(self.files.certificate),
            r"/etc/letsencrypt/live/\S+/privkey\.pem": str(self.files.key),
            r"push\.example\.org": LOOPBACK,
            r"/var/log/nginx/error\.log": "stderr",
            r"127\.0\.0\.1:8080": f"{LOOPBACK}:{self.upstream}",
            r"listen \[::\].*": "",
            r"listen 80;": f"listen {LOOPBACK}:{self.plain_port};",
            r"listen 443 ": f"listen {LOOPBACK}:{self.port} ",
        }

    def add_upstreams(self, *ports: int) -> None:
        """Further nodes, each with a line like the first one's."""
        text = self.configuration.read_text()
        [line] = [line for line in text.splitlines() if f":{self.upstream} max_fails" in line]
        lines = [line.replace(str(self.upstream), str(port)) for port in ports]
        self.configuration.write_text(text.replace(line, "\n".join([line, *lines])))

    def _run_words(self) -> list[str]:
        main = self.folder / "main.conf"
        main.write_text(self._MAIN.format(user=getpass.getuser(), folder=self.folder))
        return [self._program, "-e", "stderr", "-p", str(self.folder), "-c", str(main)]

    def _check_words(self) -> list[str]:
        return [*self._run_words(), "-t"]


class Caddy(ReverseProxy):
    name = "caddy"
    install = "apt-get install --no-install-recommends caddy"
    recipe = ROOT / "deploy" / "Caddyfile"
    loaded = "serving initial configuration"
    # It warns of what a test changes. A request that comes before its listener of HTTP/3 is ready
    # is served, and is no reason to complain of.
    complaint = r'"level":"(error|panic|fatal)"(?!.*"setting HTTP/3 Alt-Svc header")'

    def _replacements(self) -> dict[str, str]:
        # The certificate is of this test; nothing is asked from or offered to the network.
        site = f"https://{LOOPBACK}:{self.port}"
        return {
            r"^{$": "{\n\tadmin off\n\tauto_https disable_redirects",
            r"^{\$PUSH_HOST:push\.example\.org} {$": (
                f"{site} {{\n\ttls {self.files.certificate} {self.files.key}"
            ),
            r"{\$UPSTREAM:127\.0\.0\.1}:8080": f"{LOOPBACK}:{self.upstream}",
        }

    def _run_words(self) -> list[str]:
        options = ["--config", str(self.configuration), "--adapter", "caddyfile"]
        return [self._program, "run", *options]

    def _check_words(self) -> list[str]:
        return [word.replace("run", "validate") for word in self._run_words()]


class HAProxy(ReverseProxy):
    name = "haproxy"
    install = "apt-get install --no-install-recommends haproxy"
    recipe = ROOT / "deploy" / "haproxy.cfg"
    loaded = "Loading success"
    complaint = r"\[(WARNING|ALERT|EMERG)\]"

    def _replacements(self) -> dict[str, str]:
        both = self.folder / "push.pem"
        both.write_bytes(self.files.certificate.read_bytes() + self.files.key.read_bytes())
        return {
            r"/etc/haproxy/push\.pem": str(both),
            r"bind :80$": f"bind {LOOPBACK}:{self.plain_port}",
            r"bind :443 ": f"bind {LOOPBACK}:{self.port} ",
            r"127\.0\.0\.1:8080": f"{LOOPBACK}:{self.upstream}",
        }

    def _run_words(self) -> list[str]:
        return [self._program, "-W", "-db", "-f", str(self.configuration)]

    def _check_words(self) -> list[str]:
        return [self._program, "-c", "-f", str(self.configuration)]


@dataclass
class Site:
    """A service and the proxy in front of it, as user agents and application servers see them."""

    service: Service
    proxy: ReverseProxy
    authority: Authority

    @property
    def https(self) -> str:
        return f"https://{LOOPBACK}:{self.proxy.port}"

    @property
    def wss(self) -> str:
        return f"wss://{LOOPBACK}:{self.proxy.port}"


def prepare_site(folder: Path, kind: type[ReverseProxy]) -> Site:
    """A service and a proxy with its recipe; neither runs yet."""
    kind.find()
    authority = Authority(folder)
    service = Service(folder / "data", [])
    proxy = kind(folder, authority.issue(folder), upstream=int(service.ports["--port"]))
    site = Site(service, proxy, authority)
    service.options = ["--endpoint-url", site.https]
    return site


@contextmanager
def running_site(site: Site, *, expected: Sequence[str] = ()) -> Iterator[Site]:
    """Run both; at the end the service must stop cleanly, and neither may have complained, but for
    lines with one of the expected texts.
    """
    try:
        site.service.launch()
        with site.proxy:
            yield site
    finally:
        code = site.service.end()
    assert code == 0
    assert site.service.errors == []
    unexpected = [
        line for line in site.proxy.complaints if not any(text in line for text in expected)
    ]
    assert not unexpected, "".join(unexpected)
