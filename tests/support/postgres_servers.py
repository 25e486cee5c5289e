"""A PostgreSQL of our own, as processes that tests start and stop.

It runs in a temporary folder, on loopback and on a socket in that folder, as a user who is not
root. It ends with the run, however that ends.
"""

import atexit
import functools
import glob
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from support.sockets import unused_port
from support.tools import need

INSTALL = "apt-get install postgresql"
START_TIMEOUT = 60
USER = "keytables"

# The shell ends the server when its own input ends, and that ends with the process that holds it.
KEEPER = '"$@" & read -r _; kill -QUIT $!; wait'

FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=64MB", "max_connections=80")
"""A process that is killed loses nothing without fsync; a machine that fails would."""


def program(name: str) -> str:
    """The path of a program of the newest PostgreSQL that is installed."""
    need("postgresql", INSTALL, "psql")
    found = glob.glob(f"/usr/lib/postgresql/*/bin/{name}")
    found.sort(key=lambda path: int(path.split("/")[4]), reverse=True)
    return need("postgresql", INSTALL, *found, name)


class PostgresServer:
    """A cluster with one superuser, who needs no password."""

    def __init__(self, *settings: str) -> None:
        initdb, self._postgres = program("initdb"), program("postgres")
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self.data, self.log = self.folder / "data", self.folder / "log"
        self.port, self._settings = unused_port(), settings
        self._process: subprocess.Popen[bytes] | None = None
        self._options: dict[str, Any] = {
            "cwd": self.folder,
            "env": {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
        }
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self._options |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [initdb, "-D", str(self.data), *options],
            check=True,
            capture_output=True,
            **self._options,
        )

    def url(self, database: str = "postgres", port: int | None = None) -> str:
        """``port``: of a proxy in front of it."""
        return f"postgresql://{USER}@127.0.0.1:{port or self.port}/{database}?sslmode=disable"

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [self._postgres, "-D", str(self.data)]
        for setting in (
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self.folder}",
            *self._settings,
        ):
            command += ["-c", setting]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, "postgres", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                **self._options,
            )
        deadline = time.monotonic() + START_TIMEOUT
        pid_file = self.data / "postmaster.pid"
        while not (pid_file.exists() and pid_file.read_text().rstrip().endswith("ready")):
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = self.log.read_text(errors="replace")
                raise RuntimeError(f"PostgreSQL did not start: {text}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it at once, without a checkpoint, as a kill does: what was committed stays."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def postgres() -> PostgresServer:
    """The server of the run."""
    server = PostgresServer(*FAST)
    atexit.register(server.remove)
    server.start()
    return server
