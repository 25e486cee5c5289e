"""Headers of the PROXY protocol, as load balancers send them."""

import socket
import struct

SIGNATURE = bytes.fromhex("0D0A0D0A000D0A515549540A")
LOCAL, PROXY = 0x20, 0x21
UNSPECIFIED, TCP4, UDP4, TCP6, UNIX = 0x00, 0x11, 0x12, 0x21, 0x31

CLIENT4, CLIENT6 = "203.0.113.7", "2001:db8::7"


def line(source: str = CLIENT4, family: str = "TCP4") -> bytes:
    """Version 1."""
    target = "192.0.2.1" if family == "TCP4" else "2001:db8::1"
    return f"PROXY {family} {source} {target} 56324 443\r\n".encode()


def binary(
    source: str = CLIENT4, *, command: int = PROXY, family: int | None = None, tlvs: bytes = b""
) -> bytes:
    """Version 2; the family of the address, unless it is given. `tlvs` is what follows it."""
    if ":" in source:
        addresses = socket.inet_pton(socket.AF_INET6, source) * 2 + struct.pack("!2H", 56324, 443)
    else:
        addresses = socket.inet_pton(socket.AF_INET, source) * 2 + struct.pack("!2H", 56324, 443)
    if family is None:
        family = TCP6 if ":" in source else TCP4
    if family == UNIX:
        addresses = b"/run/client".ljust(108, b"\0") * 2
    return framed(addresses + tlvs, command=command, family=family)


def framed(rest: bytes, *, command: int = PROXY, family: int = TCP4) -> bytes:
    """Version 2 with whatever follows the length."""
    return SIGNATURE + struct.pack("!BBH", command, family, len(rest)) + rest


def tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!BH", kind, len(value)) + value
