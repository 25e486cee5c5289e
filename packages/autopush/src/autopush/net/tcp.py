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
    except (OSError, ValueError) as error:
        raise connect_error(error) from None


def connect_error(error: Exception) -> DialError:
    """Why connecting failed, from what asyncio raised."""
    match error:
        case TimeoutError() if not error.errno:
            return DialUnanswered("connecting took too long")
        case ssl.SSLError():  # some are ValueErrors too
            return DialInsecure(f"no TLS connection: {_tls_reason(error)}")
        case socket.gaierror() if error.errno in _UNKNOWN_HOST:
            return DialUnknown("no host has that name")
        case socket.gaierror():
            return DialUnanswered("the host name cannot be looked up")
        case OSError(errno=errno.ECONNREFUSED):
            return DialRefused("the connection was refused")
        case OSError():
            kind = DialUnanswered if error.errno in _UNREACHABLE else DialError
            name = errno.errorcode.get(error.errno or 0, type(error).__name__)
            return kind(f"cannot connect: {name}")
        case ValueError():  # it has a NUL, or a label that is too long
            return DialUnknown("the host name is invalid")
    return DialError(f"cannot connect: {type(error).__name__}")


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
