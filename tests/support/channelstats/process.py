"""channelstats as its user has it: commands, and a dashboard that runs as a process of its own."""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from channelstats.cli import main
from channelstats.commands import DONE
from support.sockets import unused_port

PATIENCE = 120
READY = "channelstats ready: "


def environment() -> dict[str, str]:
    """Ours, without settings of channelstats."""
    return {name: text for name, text in os.environ.items() if not name.startswith("CHANNELSTATS_")}


def connected(host: str) -> socket.socket:
    name, _, port = host.partition(":")
    return socket.create_connection((name, int(port)), PATIENCE)


def is_listening(host: str) -> bool:
    try:
        connected(host).close()
    except ConnectionError:  # refused, or closed before it was accepted
        return False
    return True


@contextlib.contextmanager
def waiting_request(host: str) -> Iterator[None]:
    """A request to the dashboard that is not over, so that its end waits."""
    with connected(host) as waiting:
        waiting.sendall(
            f"POST /me HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n"
            "Expect: 100-continue\r\n\r\n".encode()
        )
        assert waiting.recv(100).startswith(b"HTTP/1.1 100")  # its form is waited for
        yield


class Folder:
    """A data folder, and commands on it."""

    def __init__(self, path: Path, *settings: str) -> None:
        self.path = path
        self.settings = ["--data", str(path), *settings]

    def run(self, command: str, *arguments: str, code: int = DONE) -> str:
        """Run a command, with a loop of its own; return what it told its user."""
        told = io.StringIO()
        with contextlib.redirect_stderr(told), ThreadPoolExecutor(1) as thread:
            words = [command, *arguments, *self.settings]
            ended = thread.submit(main, words).result(PATIENCE)
        assert ended == code, told.getvalue()
        return told.getvalue()


class Dashboard:
    """`channelstats serve` on an unused port of loopback; started again, on the same one."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._port = str(unused_port())
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        words = ["serve", "--port", self._port, *self.folder.settings]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "channelstats", *words],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(READY):
            self._end(signal.SIGKILL)
            raise AssertionError(f"it did not start: {line!r}")
        self.url = line.removeprefix(READY).strip()

    def stop(self) -> None:
        if self._process is not None:
            assert self._end(signal.SIGTERM) == 0

    def _end(self, number: int) -> int:
        """Send the signal and wait for the end; return the exit code."""
        assert self._process is not None
        process, self._process = self._process, None
        with process:
            process.send_signal(number)
            try:
                return process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
