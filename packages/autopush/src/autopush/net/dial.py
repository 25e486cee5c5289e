"""Connecting to a host and port, and what it means when that fails.

The rule: refused is not the same as unanswered. Whoever refuses is known not to be there; behind a
silence may be a peer that is alive and only out of reach.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)

_NO_WAY = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})
_NO_SUCH_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class DialError(Exception):
    """No connection came about, for a reason of this machine or in the middle; the text says it."""


class Refused(DialError):  # noqa: N818
    """The peer's machine says that nobody listens, or no host bears the name."""


class Unanswered(DialError):  # noqa: N818
    """Nobody said anything: no answer in time, no way there, no answer about the name."""


async def dial(
    loop: asyncio.AbstractEventLoop, host: str, port: int, protocol: Callable[[], P], seconds: float
) -> P:
    """Connect to the first of the host's addresses that accepts, within so many seconds.

    :raises DialError: none did; `Refused` only if every one of them refused
    """
    try:
        return await asyncio.wait_for(_dial(loop, host, port, protocol), seconds)
    except TimeoutError:
        raise Unanswered("connecting took too long") from None
    except ConnectionRefusedError:
        raise Refused("the connection was refused") from None
    except ValueError:  # it has a NUL, or a part that is too long
        raise Refused("the host's name is none") from None
    except socket.gaierror as exc:
        if exc.errno in _NO_SUCH_NAME:
            raise Refused("no host has that name") from None
        raise Unanswered("the host's name cannot be looked up") from None
    except OSError as exc:
        kind = Unanswered if exc.errno in _NO_WAY else DialError
        name = errno.errorcode.get(exc.errno or 0, type(exc).__name__)
        raise kind(f"cannot connect: {name}") from None


async def _dial(
    loop: asyncio.AbstractEventLoop, host: str, port: int, protocol: Callable[[], P]
) -> P:
    failure: OSError | None = None
    for family, kind, number, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, number)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
            _, made = await loop.create_connection(protocol, sock=sock)
        except OSError as exc:
            sock.close()
            if failure is None or isinstance(failure, ConnectionRefusedError):
                failure = exc
        except BaseException:
            sock.close()
            raise
        else:
            return made
    raise failure or socket.gaierror(socket.EAI_NONAME, "no address")
