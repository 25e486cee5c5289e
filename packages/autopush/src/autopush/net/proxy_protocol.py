"""The header of the PROXY protocol, versions 1 and 2, without I/O.

A load balancer that passes TCP connections on sends it before anything else, before TLS too: it
says who the client is. Source: the PROXY protocol specification of HAProxy, sections 2.1 and 2.2.

Rule: no byte behind the header is consumed, and what an incomplete header has received is consumed
wholly. So the caller may look at what the kernel holds, take from there what the header consumes,
and is not called again for what it has looked at.
"""

from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

MAX_LINE: Final = 107
"""Bytes of a header of version 1, with the end of the line."""
MAX_HEADER: Final = 4096
"""Bytes of a header of version 2. Those known need less than 1000, for addresses and all TLVs."""

_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_LINE_START: Final = b"PROXY "
_FIXED_SIZE: Final = 16
"""Bytes of version 2 before the addresses: signature, command, family, length of the rest."""

_LOCAL, _PROXY = 0x20, 0x21
_UNSPECIFIED, _TCP4, _TCP6, _UNIX_STREAM = 0x00, 0x11, 0x21, 0x31
_ADDRESS_SIZES: Final = {_UNSPECIFIED: 0, _TCP4: 12, _TCP6: 36, _UNIX_STREAM: 216}


class ProxyHeaderError(Exception):
    """What came is no header of the PROXY protocol; the text says why and repeats nothing of it."""


class ProxyHeader:
    """A header that is being received.

    `source`: the client's address when `is_complete`; empty where the header names none (a
    connection of the proxy itself, or one from a Unix socket): the client is then the TCP peer.
    """

    __slots__ = ("_received", "is_complete", "source")

    def __init__(self) -> None:
        self._received = b""
        self.is_complete = False
        self.source = ""

    def feed(self, data: bytes) -> int:
        """Take what belongs to the header; returns how many of the bytes that are.

        Must not be called when it is complete.

        :raises ProxyHeaderError: this is not the beginning of a header
        """
        before = len(self._received)
        self._received += data
        end = _end(self._received)
        if end is None:
            return len(data)
        self.source = _source(self._received[:end])
        self.is_complete = True
        return end - before


def _end(received: bytes) -> int | None:
    """The size of the header that begins so; None while that is open or more must come."""
    if _SIGNATURE.startswith(received[: len(_SIGNATURE)]):
        if len(received) < _FIXED_SIZE:
            return None
        end = _FIXED_SIZE + int.from_bytes(received[14:_FIXED_SIZE])
        if end > MAX_HEADER:
            raise ProxyHeaderError(f"the header is longer than {MAX_HEADER} bytes")
        return end if len(received) >= end else None
    if not _LINE_START.startswith(received[: len(_LINE_START)]):
        raise ProxyHeaderError("the connection does not begin with a PROXY header")
    end = received.find(b"\r\n", 0, MAX_LINE)
    if end >= 0:
        return end + 2
    if len(received) >= MAX_LINE:
        raise ProxyHeaderError(f"the header line is longer than {MAX_LINE} bytes")
    return None


def _source(header: bytes) -> str:
    """The client's address in a complete header."""
    return _source_of_line(header) if header.startswith(_LINE_START) else _source_of_binary(header)


def _source_of_line(line: bytes) -> str:
    match line.removesuffix(b"\r\n").split(b" "):
        case [_, b"UNKNOWN", *_]:
            return ""
        case [_, b"TCP4", *addresses] if len(addresses) == 4:
            family: type[IPv4Address | IPv6Address] = IPv4Address
        case [_, b"TCP6", *addresses] if len(addresses) == 4:
            family = IPv6Address
        case _:
            raise ProxyHeaderError("the header line is malformed")
    source, destination, *ports = addresses
    if not all(map(_is_port, ports)):
        raise ProxyHeaderError("the header line has an invalid port")
    try:
        family(destination.decode("ascii"))
        return _text(family(source.decode("ascii")))
    except (AddressValueError, UnicodeDecodeError):
        raise ProxyHeaderError("the header line has an invalid address") from None


def _is_port(text: bytes) -> bool:
    return text.isdigit() and len(text) <= 5 and int(text) <= 65535


def _source_of_binary(header: bytes) -> str:
    command, family = header[12], header[13]
    if command == _LOCAL:  # a connection of the proxy itself; what else it says has no meaning
        return ""
    if command != _PROXY:
        raise ProxyHeaderError("the header has an unknown version or command")
    size = _ADDRESS_SIZES.get(family)
    if size is None:
        raise ProxyHeaderError("the header has an unknown address family or is not of TCP")
    addresses = header[_FIXED_SIZE:]
    if len(addresses) < size:
        raise ProxyHeaderError("the header is too short for its addresses")
    if family == _TCP4:
        return str(IPv4Address(addresses[:4]))
    return _text(IPv6Address(addresses[:16])) if family == _TCP6 else ""


def _text(address: IPv4Address | IPv6Address) -> str:
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise ProxyHeaderError("the header line has an invalid address")
        # A balancer that listens on one socket for both families says so of IPv4.
        return str(address.ipv4_mapped or address)
    return str(address)
