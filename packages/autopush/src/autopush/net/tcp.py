"""Connecting to a host and port.

Rule: a refusal and no answer are different errors. A peer that refuses is known to be absent; one
that does not answer may be alive but unreachable from here.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)

_UNREACHABLE = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})
_UNKNOWN_HOST = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class DialError(Exception):
    """Connecting failed; the text says why.

    DialError ─┬─ DialRefused ── DialUnknown
               └─ DialUnanswered · DialInsecure
    """


class DialRefused(DialError):  # noqa: N818
    """Nothing listens there, or no host has that name."""


class DialUnknown(DialRefused):
    """No host has that name."""


class DialUnanswered(DialError):  # noqa: N818
    """No answer in time, no route to the host, or no answer from the name server."""


class DialInsecure(DialError):  # noqa: N818
    """The peer answers, but not with TLS, or not with a certificate to trust."""


async def dial(
    loop: asyncio.AbstractEventLoop,
    host: str,
    port: int,
    protocol: Callable[[], P],
    seconds: float,
    tls: ssl.SSLContext | None = None,
) -> P:
    """Connect to the first of the host's addresses that accepts, within `seconds`.

    With `tls` that includes the handshake; the certificate must be for `host`.

    :raises DialError: none did; `DialRefused` only if every one of them refused
    """
    try:
        return await asyncio.wait_for(_dial(loop, host, port, protocol, tls), seconds)
    except TimeoutError:
        raise DialUnanswered("connecting took too long") from None
    except ConnectionRefusedError:
        raise DialRefused("the connection was refused") from None
    except ssl.SSLError as exc:  # some are ValueErrors too
        raise DialInsecure(f"no TLS connection: {_tls_reason(exc)}") from None
    except ValueError:  # it has a NUL, or a label that is too long
        raise DialUnknown("the host name is invalid") from None
    except socket.gaierror as exc:
        if exc.errno in _UNKNOWN_HOST:
            raise DialUnknown("no host has that name") from None
        raise DialUnanswered("the host name cannot be looked up") from None
    except OSError as exc:
        kind = DialUnanswered if exc.errno in _UNREACHABLE else DialError
        name = errno.errorcode.get(exc.errno or 0, type(exc).__name__)
        raise kind(f"cannot connect: {name}") from None


async def _dial(
    loop: asyncio.AbstractEventLoop,
    host: str,
    port: int,
    protocol: Callable[[], P],
    tls: ssl.SSLContext | None,
) -> P:
    failure: OSError | None = None
    for family, kind, number, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, number)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
            name = host if tls else None
            _, connected = await loop.create_connection(
                protocol, sock=sock, ssl=tls, server_hostname=name
            )
        except OSError as exc:
            sock.close()
            if failure is None or isinstance(failure, ConnectionRefusedError):
                failure = exc
        except BaseException:
            sock.close()
            raise
        else:
            return connected
    raise failure or socket.gaierror(socket.EAI_NONAME, "no address")


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {error.verify_message}"
    return (error.reason or "the handshake failed").lower().replace("_", " ")
