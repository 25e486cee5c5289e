"""Programs in processes of their own that need not import autopush first: see `fork_server`."""

import atexit
import functools
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from support.paths import PYTHONPATH

NUMBER: Final = struct.Struct("q")
"""Of a process id or an exit code on its way."""

_READ_AT_THE_BEGINNING: Final = ("PYTHON", "LD_", "MALLOC_", "TZ")
"""Beginnings of variables that count only where a program begins."""
_sending = threading.Lock()


class Request(msgspec.Struct):
    """`words`: of a command line of autopush; or `program`: Python, in a session of its own."""

    folder: str
    environment: dict[str, str]
    words: list[str] = []
    program: str = ""


def can_have(variables: Mapping[str, str]) -> bool:
    """Whether these variables have their effect in a process that is made here."""
    return not any(name.startswith(_READ_AT_THE_BEGINNING) for name in variables)


@functools.cache
def _server() -> socket.socket:
    """The connection to the server of this process of tests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.fork_server", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


class ForkedProcess:
    """What tests use of `subprocess.Popen`. The outputs are descriptors, which stay open here.

    ``words``: of a command line of autopush; or ``program``: Python, in a session of its own.
    """

    def __init__(
        self,
        words: Sequence[str] = (),
        *,
        program: str = "",
        env: Mapping[str, str] | None = None,
        stdout: int,
        stderr: int,
    ) -> None:
        request = Request(os.getcwd(), dict(env or os.environ), list(words), program)
        self._pipe, told = os.pipe()
        with _sending:
            outputs = [stdout, stderr, told]
            socket.send_fds(_server(), [msgspec.json.encode(request)], outputs)
        os.close(told)
        self.returncode: int | None = None
        self._lock = threading.Lock()
        self.pid = self._read()

    def _read(self) -> int:
        number: int
        (number,) = NUMBER.unpack(os.read(self._pipe, NUMBER.size))
        return number

    def __del__(self) -> None:
        os.close(self._pipe)

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        with self._lock:
            if self.returncode is None and select.select([self._pipe], [], [], 0)[0]:
                self.returncode = self._read()
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """:raises subprocess.TimeoutExpired: it still runs"""
        if self.returncode is None:
            select.select([self._pipe], [], [], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    words: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    timeout: float = 60,
    *,
    program: str = "",
) -> "subprocess.CompletedProcess[str]":
    """As `subprocess.run` with captured output; what is run is as for `ForkedProcess`.

    :raises subprocess.TimeoutExpired: it had to be killed
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        outputs = {"stdout": out.fileno(), "stderr": errors.fileno()}
        process = ForkedProcess(words, program=program, env=env, **outputs)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), errors.read())
