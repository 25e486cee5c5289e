"""The client's side of RFC 6455 for tests: frames built by the test, valid or not."""

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
KEY = b"\x37\xfa\x21\x3d"


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    rsv: int = 0,
    key: bytes | None = KEY,
    length_bytes: int | None = None,
    length: int | None = None,
) -> bytes:
    """One frame as a client sends it.

    `key` None leaves it unmasked. `length_bytes` (0, 2 or 8) forces the form of the length,
    `length` announces another one than the payload's.
    """
    size = len(payload) if length is None else length
    if length_bytes is None:
        length_bytes = 0 if size < 126 else 2 if size < 0x10000 else 8
    short = {0: size, 2: 126, 8: 127}[length_bytes]
    head = bytes((fin << 7 | rsv << 4 | opcode, (key is not None) << 7 | short))
    head += size.to_bytes(length_bytes) if length_bytes else b""
    if key is None:
        return head + payload
    keys = (key * (len(payload) // 4 + 1))[: len(payload)]
    masked = int.from_bytes(payload) ^ int.from_bytes(keys)
    return head + key + masked.to_bytes(len(payload))


def text(payload: bytes = b"", *, fin: bool = True) -> bytes:
    return frame(TEXT, payload, fin=fin)


def close(code: int | None = None, reason: bytes = b"") -> bytes:
    return frame(CLOSE, b"" if code is None else code.to_bytes(2) + reason)


def server(opcode: int, payload: bytes = b"") -> bytes:
    """One short frame as a server sends it."""
    return bytes((0x80 | opcode, len(payload))) + payload


def server_close(code: int | None = None, reason: bytes = b"") -> bytes:
    return server(CLOSE, b"" if code is None else code.to_bytes(2) + reason)
