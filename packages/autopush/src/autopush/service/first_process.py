"""Process 1 of a container, whose end ends the container: it starts the service as its child, so
that an upgrade can replace that.

It reaps what is orphaned, passes signals on to the main process, and learns of the next one as
systemd does: by `MAINPID=` on the socket of `NOTIFY_SOCKET`, see `ServiceManager`.
"""

import os
import re
import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import Final

_PASSED_ON: Final = (signal.SIGHUP, signal.SIGUSR2)
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SIGNALS: Final = (*_PASSED_ON, *_STOP_SIGNALS, signal.SIGCHLD)
_MAIN_PROCESS: Final = re.compile(rb"^MAINPID=(\d{1,7})$", re.MULTILINE)
_CREDENTIALS: Final = struct.Struct("=iII")
"""struct ucred: pid, uid, gid."""


def go_on_in_a_child() -> None:
    """In process 1: return in a child, and become what this module describes in the parent.

    Nothing is done under a service manager outside of the container: that has its own socket.
    """
    if os.getpid() != 1 or "NOTIFY_SOCKET" in os.environ:
        return
    notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notifications.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    notifications.bind("")  # Linux chooses a name that is in no file system
    # Blocked, as process 1 never gets a signal that it has no handler for.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    child = os.fork()
    if child:
        notifications.set_inheritable(True)
        isolated = ["-I"] if sys.flags.isolated else []
        numbers = [str(child), str(notifications.fileno())]
        # Another command line than that of the service, which `autopush upgrade` looks for.
        os.execv(sys.executable, [sys.executable, *isolated, "-m", __name__, *numbers])  # noqa: S606
    os.environ["NOTIFY_SOCKET"] = "@" + notifications.getsockname()[1:].decode()
    notifications.close()
    if "LISTEN_PID" in os.environ:  # sockets that an engine has passed are the child's
        os.environ["LISTEN_PID"] = str(os.getpid())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def run_until_no_child_is_left(main_process: int, notifications: socket.socket) -> int:
    """The exit code of the last main process, as shells give it."""
    exit_code = 0
    while True:
        number = signal.sigwait(_SIGNALS)
        main_process = _current(main_process, notifications)
        if number in _STOP_SIGNALS:
            _stop_all()
        elif number in _PASSED_ON:
            with suppress(ProcessLookupError):
                os.kill(main_process, number)
        try:
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
                if ended.si_pid == main_process:
                    is_exit = ended.si_code == os.CLD_EXITED
                    exit_code = ended.si_status if is_exit else 128 + ended.si_status
                    _stop_all()  # what it has left
        except ChildProcessError:
            return exit_code


def _stop_all() -> None:
    """The versions that have been replaced, too; as systemd does."""
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGTERM)


def _current(main_process: int, notifications: socket.socket) -> int:
    """By the notifications that have arrived, of processes of this user."""
    with suppress(BlockingIOError):
        while True:
            space = socket.CMSG_SPACE(_CREDENTIALS.size)
            text, ancillary, *_ = notifications.recvmsg(4096, space, socket.MSG_DONTWAIT)
            senders = {_CREDENTIALS.unpack(data)[1] for *_, data in ancillary}
            if senders == {os.getuid()} and (match := _MAIN_PROCESS.search(text)):
                main_process = int(match[1])
    return main_process


if __name__ == "__main__":
    child, descriptor = map(int, sys.argv[1:])
    sys.exit(run_until_no_child_is_left(child, socket.socket(fileno=descriptor)))
