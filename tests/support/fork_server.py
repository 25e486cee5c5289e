"""A process that has imported autopush, and forks itself for each program that a test starts.

The imports are three quarters of what the start of a service costs, and a run of the tests makes
hundreds of starts. `support.forked` is its client. A request comes with three descriptors: standard
output, standard error, and a pipe that is told the process id and, when the process has ended, its
exit code.
"""

import os
import selectors
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import aiohttp  # noqa: F401
import msgspec

# Those not used here are to be there in each copy; a command imports them when it runs.
import autopush.commands.checks
import autopush.service.startup  # noqa: F401
import keytables.sqlite  # noqa: F401
from autopush import cli
from support.forked import NUMBER, Request

MAX_REQUEST: Final = 1 << 17


def run(request: Request) -> int:
    """Returns the exit code."""
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    if request.program:
        os.setsid()
        exec(compile(request.program, "<program>", "exec"), {"__name__": "__main__"})
        return 0
    sys.argv = ["autopush", *request.words]
    sys.orig_argv = [sys.executable, "-m", "autopush.cli", *request.words]  # of a next version
    return cli.main(request.words)


@dataclass
class Child:
    pid: int
    descriptor: int
    """Readable when it has ended."""
    pipe: int


def serve(connection: socket.socket) -> Request | None:
    """Fork for each request until the client has ended; returns in each copy what it has to run."""
    children: dict[int, Child] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not connection:
                    child = children.pop(key.fd)
                    selector.unregister(key.fd)
                    _, status = os.waitpid(child.pid, 0)
                    tell(child.pipe, os.waitstatus_to_exitcode(status))
                    os.close(child.pipe)
                    os.close(child.descriptor)
                    continue
                text, received, _, _ = socket.recv_fds(connection, MAX_REQUEST, 3)
                if not text:
                    return None
                *outputs, pipe = received
                pid = os.fork()
                if pid == 0:
                    for number, output in enumerate(outputs, 1):
                        os.dup2(output, number)
                    for each in children.values():
                        os.close(each.pipe)
                        os.close(each.descriptor)
                    for descriptor in received:
                        os.close(descriptor)
                    return msgspec.json.decode(text, type=Request)
                for output in outputs:
                    os.close(output)
                tell(pipe, pid)
                child = Child(pid, os.pidfd_open(pid), pipe)
                children[child.descriptor] = child
                selector.register(child.descriptor, selectors.EVENT_READ)


def tell(pipe: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(pipe, NUMBER.pack(number))


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as client:
        requested = serve(client)
    sys.exit(0 if requested is None else run(requested))
