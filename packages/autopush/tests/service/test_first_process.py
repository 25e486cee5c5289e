"""Process 1 of a container, in a PID namespace of its own, with small programs as the service."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.tools import give_up, need

CHILD = """
import os, signal, socket, sys, time
from autopush.service.first_process import go_on_in_a_child
go_on_in_a_child()
def report(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(text, "\\0" + os.environ["NOTIFY_SOCKET"][1:])
def wait_for(number):
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    os.write(1, b"ready\\n")  # as a whole, beside another process
    signal.sigwait([number])
"""


@contextmanager
def first_process(program: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """`unshare` with the program as process 1 of its child, and the PID of that process here."""
    unshare = [need("unshare", "apt-get install util-linux"), "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0:
        unshare.append("--map-root-user")
    if subprocess.run([*unshare, "true"], check=False, capture_output=True, timeout=60).returncode:
        give_up("needs the right to make PID namespaces (root has it)")
    environment = {name: text for name, text in os.environ.items() if name != "NOTIFY_SOCKET"}
    command = [*unshare, sys.executable, "-c", CHILD + program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            [pid] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            yield process, int(pid)
            process.wait(60)
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), signal.SIGKILL)", 137)]
)
def test_its_exit_code_is_that_of_the_service(end: str, code: int) -> None:
    with first_process(f"wait_for(signal.SIGHUP); {end}") as (process, pid):
        os.kill(pid, signal.SIGHUP)
    assert process.returncode == code


def test_a_signal_to_stop_reaches_every_process_and_it_ends_after_the_last() -> None:
    program = "os.fork()\nwait_for(signal.SIGTERM)\nos.write(1, b'ended\\n')"
    with first_process(program) as (process, pid):
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        os.kill(pid, signal.SIGTERM)
        assert process.stdout.read() == "ended\nended\n"
    assert process.returncode == 0


def test_signals_go_to_the_next_version_once_it_is_the_main_process() -> None:
    program = """
child = os.fork()
if child:
    report(b"MAINPID=%d" % child)
    sys.exit(1)  # the container goes on
while os.getppid() != 1:
    time.sleep(0.01)
wait_for(signal.SIGUSR2)
sys.exit(5)
"""
    with first_process(program) as (process, pid):
        os.kill(pid, signal.SIGUSR2)
    assert process.returncode == 5


def test_what_is_orphaned_is_reaped() -> None:
    program = """
reader, writer = os.pipe()
if not (child := os.fork()):
    if not os.fork():
        os.write(writer, b"%d" % os.getpid())
        os._exit(0)
    os._exit(0)
os.waitpid(child, 0)
orphan = int(os.read(reader, 10))
deadline = time.monotonic() + 30
while time.monotonic() < deadline:
    try:
        os.kill(orphan, 0)
    except ProcessLookupError:
        break
    time.sleep(0.01)
else:
    sys.exit(9)
wait_for(signal.SIGHUP)
"""
    with first_process(program) as (process, pid):
        os.kill(pid, signal.SIGHUP)
    assert process.returncode == 0
