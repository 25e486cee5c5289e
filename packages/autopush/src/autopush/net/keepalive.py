"""How the kernel finds out that a silent peer is gone.

The rule it keeps: an idle connection costs no timer and no write of ours. The kernel probes it, and
gives up on output that the peer does not acknowledge.
"""

import socket
from typing import Protocol


class HasOptions(Protocol):
    """A socket, or what a transport's `get_extra_info("socket")` returns."""

    def setsockopt(self, level: int, name: int, value: int, /) -> None: ...


def keep_alive(
    sock: HasOptions, *, idle: int = 300, interval: int = 60, count: int = 4, unanswered: int = 60
) -> None:
    """Have a TCP socket probed and dropped when its peer is gone. All times are in seconds.

    After `idle` of silence a probe goes out, then one every `interval`; `count` of them without an
    answer end the connection, as do `unanswered` seconds without an acknowledgement of what was
    sent (on Linux this holds for probes too). On Linux a socket accepted from a listening one takes
    these options over, so setting them once on the listening socket is enough.

    Options that the platform does not know are left out.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", idle),
        ("TCP_KEEPINTVL", interval),
        ("TCP_KEEPCNT", count),
        ("TCP_USER_TIMEOUT", unanswered * 1000),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
