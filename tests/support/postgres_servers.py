"""A PostgreSQL of our own, as processes that tests start and stop.

It runs in a temporary folder, on loopback and on a socket in that folder, as a user who is not
root. It ends with the run, however that ends. POSTGRES_BIN names the folder with the programs of
another version than the newest that is installed.
"""

import atexit
import functools
import glob
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from support.paths import TOOLS
from support.sockets import unused_port
from support.tools import end_kept, give_up, need, start_kept

INSTALL = "apt-get install postgresql"
BUNDLED = TOOLS / "postgres" / "node_modules"
START_TIMEOUT = 60
USER = "keytables"

_BASE_BACKUP = """
SELECT FROM pg_backup_start('standby', fast => true);
\\! cp -R {source} {target}
SELECT labelfile FROM pg_backup_stop(wait_for_archive => false);
"""
_BASE_BACKUP_TO_14 = """
SELECT FROM pg_start_backup('standby', fast => true, exclusive => false);
\\! cp -R {source} {target}
SELECT labelfile FROM pg_stop_backup(exclusive => false, wait_for_archive => false);
"""

FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=64MB", "max_connections=80")
"""A process that is killed loses nothing without fsync; a machine that fails would."""


def program(name: str, folder: Path | None = None) -> str:
    """The path of a program of PostgreSQL: in this folder, in POSTGRES_BIN, or of the newest
    version that is installed. (A folder may have those of the server only.)
    """
    need("postgresql", INSTALL, "psql")
    found = glob.glob(f"/usr/lib/postgresql/*/bin/{name}")
    found.sort(key=lambda path: int(path.split("/")[4]), reverse=True)
    preferred = folder or os.environ.get("POSTGRES_BIN")
    if preferred and (path := Path(preferred, name)).exists():
        found.insert(0, str(path))
    return need("postgresql", INSTALL, *found, name)


def bundled(version: int) -> Path:
    """The programs of the oldest or newest supported server, with what they need."""
    folder = BUNDLED / f"postgres-{version}" / "native"
    if not (folder / "bin" / "postgres").exists():
        give_up(f"needs PostgreSQL {version} (make tools, on x86-64)")
    return folder


def dump_program(name: str) -> str:
    """`pg_dump` or `pg_restore`, which refuse servers newer than themselves."""
    own, server = (_major(each) for each in (name, "postgres"))
    if own < server:
        give_up(f"needs {name} of PostgreSQL {server} (apt-get install postgresql-client-{server})")
    return program(name)


def _major(name: str, folder: Path | None = None) -> int:
    words = subprocess.check_output([program(name, folder), "--version"], text=True)
    found = re.search(r"\d+", words)
    assert found is not None
    return int(found[0])


class PostgresServer:
    """A cluster with one superuser, who needs no password. ``programs``: of `bundled`."""

    def __init__(self, *settings: str, programs: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self._bin: Path | None = None
        if programs is not None:  # the user of the server may not see where they are
            self._bin = shutil.copytree(programs, self.folder / "native", symlinks=True) / "bin"
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

    def create(self) -> None:
        """Make its data, that of an empty cluster."""
        options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        self._run("initdb", "-D", str(self.data), *options)

    def follow(self, primary: "PostgresServer") -> None:
        """Make it a standby of another one, with a copy of its data instead of its own. (As
        `pg_basebackup` does, which is not among the programs of every version.)
        """
        shutil.rmtree(self.data, ignore_errors=True)
        script = _BASE_BACKUP if _major("postgres", primary._bin) >= 15 else _BASE_BACKUP_TO_14
        script = script.format(source=primary.data, target=self.data)
        options = ["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", primary.url()]
        label = primary._run("psql", *options, stdin=script)
        for name in ("postmaster.pid", "postmaster.opts"):
            (self.data / name).unlink(missing_ok=True)
        self.put("backup_label", f"{label}\n")
        source = f"host=127.0.0.1 port={primary.port} user={USER}"
        self.put("postgresql.auto.conf", f"primary_conninfo = '{source}'\n")
        self.put("standby.signal", "")

    def promote(self) -> None:
        """Make a standby a primary."""
        self._run("pg_ctl", "promote", "-D", str(self.data), "-w")

    def execute(self, sql: str) -> str:
        """Execute a statement as an operator does; return the first column as text."""
        return self._run("psql", "-XAtq", "-d", self.url(), "-c", sql)

    def _run(self, name: str, *arguments: str, stdin: str | None = None) -> str:
        command = [program(name, self._bin), *arguments]
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command, check=False, capture_output=True, text=True, input=stdin, **self._options
        )
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr}")
        return done.stdout.strip()

    def put(self, name: str, content: str | bytes) -> Path:
        """A file of its own in the data folder, in place of one that is there."""
        if not self.data.exists():
            self.create()
        path = self.data / name
        path.unlink(missing_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(path, self._options["user"], self._options["group"])
        return path

    def url(self, database: str = "postgres", port: int | None = None) -> str:
        """``port``: of a proxy in front of it."""
        return f"postgresql://{USER}@127.0.0.1:{port or self.port}/{database}?sslmode=disable"

    def start(self) -> None:
        """Start it and wait until it answers; the first time with an empty cluster."""
        if not self.data.exists():
            self.create()
        command = [program("postgres", self._bin), "-D", str(self.data)]
        for setting in (
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self.folder}",
            *self._settings,
        ):
            command += ["-c", setting]
        with self.log.open("ab") as output:
            self._process = start_kept(
                command,
                end="kill -QUIT $!",
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
            end_kept(self._process)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class PgBouncer:
    """A pooler in front of a server, in transaction mode. ``ignored``: startup parameters that it
    takes and does not pass on, separated by commas.
    """

    def __init__(self, server: PostgresServer, folder: Path, ignored: str = "") -> None:
        program = need("pgbouncer", "apt-get install pgbouncer", "pgbouncer", "/usr/sbin/pgbouncer")
        self.port = unused_port()
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": "transaction",
            "ignore_startup_parameters": ignored,
            "log_connections": 0,
            "log_disconnections": 0,
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        to = f"* = host=127.0.0.1 port={server.port} user={USER}"
        self._file = folder / "pgbouncer.ini"
        self._file.write_text("\n".join(["[databases]", to, "[pgbouncer]", *lines]))
        self._command = [program, str(self._file)]
        if os.geteuid() == 0:  # it refuses to run as root
            self._command[1:1] = ["--user", "nobody"]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE)
        assert self._process.stderr is not None
        lines = []
        for line in self._process.stderr:
            lines.append(line)
            if b"process up" in line:
                return self
        raise RuntimeError(f"PgBouncer did not start: {b''.join(lines).decode()}")

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._process = None


class ReplicatedPostgres:
    """A primary and a standby that follows it: a commit that is answered is on both. When the
    standby is away, the primary commits alone, and no fault may come.
    """

    def __init__(self, programs: Path | None = None) -> None:
        settings = (*FAST, "wal_keep_size=256MB", "wal_retrieve_retry_interval=100ms")
        self.primary, self.standby = (PostgresServer(*settings, programs=programs) for _ in "ab")
        self._hosts = ",".join(f"127.0.0.1:{each.port}" for each in (self.primary, self.standby))

    @property
    def url(self) -> str:
        options = "sslmode=disable&target_session_attrs=read-write"
        return f"postgresql://{USER}@{self._hosts}/postgres?{options}"

    def start(self) -> None:
        self.primary.start()
        self._follow()

    def restart(self, seconds: float = 0.0) -> None:
        """Kill the primary, and start it again after so many seconds."""
        self.primary.stop()
        time.sleep(seconds)
        self.primary.start()
        self._wait_for_standby()

    def fail_over(self) -> None:
        """Kill the primary for good; the standby takes its place, and gets a standby."""
        self.primary.stop()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary
        self._replicate_to("")
        self._follow()

    def _follow(self) -> None:
        self.standby.follow(self.primary)
        self.standby.start()
        self._replicate_to("*")
        self._wait_for_standby()

    def _replicate_to(self, names: str) -> None:
        self.primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.primary.execute("SELECT pg_reload_conf()")

    def _wait_for_standby(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while self.primary.execute("SELECT sync_state FROM pg_stat_replication") != "sync":
            if time.monotonic() > deadline:
                raise RuntimeError(f"no standby follows: {self.standby.log.read_text()}")
            time.sleep(0.05)
        # Returns when the standby has what was committed before it followed.
        self.primary.execute("SELECT pg_logical_emit_message(true, 'followed', '')")

    def remove(self) -> None:
        self.primary.remove()
        self.standby.remove()


@functools.cache
def postgres() -> PostgresServer:
    """The server of the run."""
    server = PostgresServer(*FAST)
    atexit.register(server.remove)
    server.start()
    return server
