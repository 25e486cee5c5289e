"""Fuzzed WebSocket frames and HTTP requests, from a seed, as many as wanted.

All but the last of a batch leave the connection open, so that the service reads them all; the last
one may have anything wrong.
"""

import json
import random
from collections.abc import Callable, Sequence
from urllib.parse import quote

from support import wire
from support.bad_input import CHANNEL, VALUES

TYPES = ["hello", "register", "unregister", "ack", "nack", "broadcast_subscribe", "urgency"]
MEMBERS = ["channelID", "key", "updates", "version", "code", "uaid", "broadcasts", "use_webpush"]
POOL = 4000
"""Frames that are used again and again, in any order, before they are replaced by new ones."""
BIG = 2000
"""Bytes of a frame of which the pool has few."""
HEADERS = ["TTL", "Topic", "Urgency", "Content-Encoding", "Encryption", "Crypto-Key", "Prefer"]
HEADERS += ["Authorization", "X-Forwarded-For", "Content-Type", "Origin", "Accept"]
TOKENS = [b"\r\n", b"\n", b"\0", b" ", b":", b"Content-Length: 5\r\n", b"\xff", b"-1", b"a" * 400]
TOKENS += [b"Expect: 100-continue\r\n", b"Content-Length: 99999\r\n", "é".encode()]
TOKENS += [b"Transfer-Encoding: chunked\r\n", b"Host: h\r\n", b"HTTP/2.0", b"0\r\n\r\n"]


class FrameFuzzer:
    """Frames of user agents."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._values = list(VALUES.values())
        self._small = [value for value in self._values if len(str(value)) < BIG]
        self._pool: list[bytes] = []
        self._used = 0

    def batch(self, count: int) -> list[bytes]:
        """So many frames, of which all but the last leave the connection open."""
        if self._used >= 50 * len(self._pool):
            self._pool, self._used = [self._frame() for _ in range(POOL)], 0
        self._used += count
        return [*self._dice.choices(self._pool, k=count - 1), self._last()]

    def pieces(self, data: bytes) -> list[bytes]:
        """The same bytes, cut anywhere."""
        cuts = sorted(self._dice.randrange(len(data)) for _ in range(self._dice.randrange(4)))
        return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def _value(self) -> object:
        return self._dice.choice(self._values if self._dice.random() < 0.02 else self._small)

    def _message(self) -> bytes:
        dice = self._dice
        members = {name: self._value() for name in dice.sample(MEMBERS, dice.randrange(4))}
        if dice.random() < 0.5:
            members["channelID"] = dice.choice([CHANNEL, CHANNEL.upper(), CHANNEL[:-1]])
        if dice.random() < 0.3:
            entry = {"channelID": self._value(), "version": self._value(), "code": self._value()}
            members["updates"] = [entry] * dice.randrange(5)
        return json.dumps({"messageType": dice.choice(TYPES), **members}).encode()

    def _frame(self) -> bytes:
        dice, number = self._dice, self._dice.random()
        key = bytes(4) if number < 0.9 else dice.randbytes(4)
        if number < 0.1:
            return wire.frame(dice.choice([wire.PING, wire.PONG]), dice.randbytes(99), key=key)
        payload = self._message()
        if number < 0.2:
            at = dice.randrange(len(payload))
            first = wire.frame(wire.TEXT, payload[:at], fin=False, key=key)
            ping = wire.frame(wire.PING, b"between", key=key)
            return first + ping + wire.frame(wire.CONTINUATION, payload[at:], key=key)
        return wire.frame(wire.TEXT, payload, key=key)

    def _last(self) -> bytes:
        """A frame with anything wrong: its bits, its length, its text, its type."""
        dice = self._dice
        payload = bytearray(self._message()[:BIG])
        match dice.randrange(6):
            case 0:
                return wire.frame(dice.randrange(16), dice.randbytes(dice.randrange(200)))
            case 1:
                return wire.frame(wire.TEXT, bytes(payload), rsv=dice.randrange(8))
            case 2:
                return wire.close(dice.randrange(5200), dice.randbytes(dice.randrange(120)))
            case 3:
                return wire.frame(wire.TEXT, b"{}", length=dice.randrange(2**40), length_bytes=8)
            case 4:
                return dice.randbytes(dice.randrange(1, 300))
            case _:
                for _ in range(dice.randrange(1, 4)):
                    payload[dice.randrange(len(payload))] = dice.randrange(256)
                return wire.text(bytes(payload))


class RequestFuzzer:
    """Requests to the endpoint: of all kinds, some broken, some good. `paths`: of endpoints."""

    def __init__(self, seed: int, paths: Sequence[str]) -> None:
        self._dice = random.Random(seed)
        self._paths = paths
        self._kinds: list[Callable[[], bytes]] = [self._push, self._other]

    def batch(self, count: int) -> list[bytes]:
        """So many requests, of which all but the last leave the connection open."""
        requests = [self._dice.choice(self._kinds)() for _ in range(count - 1)]
        return [*requests, self._broken()]

    def _push(self) -> bytes:
        dice = self._dice
        path = dice.choice(self._paths)
        if dice.random() < 0.3:
            at = dice.randrange(1, len(path))
            path = path[:at] + dice.choice(["", "A", "%00", "/"]) + path[at + 1 :]
        lines = {"TTL": dice.choice(["0", "0", "0", "-1", "", "99999999999", "x"])}
        for name in dice.sample(HEADERS, dice.randrange(4)):
            lines[name] = self._text()
        return self._bytes("POST", path, lines, dice.randbytes(dice.choice([0, 10, 3000])))

    def _other(self) -> bytes:
        dice = self._dice
        method = dice.choice(["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "POST"])
        uaid = dice.choice(["0" * 32, "x", "A" * 300])
        paths = ["/health", "/v1/fcm/app/registration", f"/v1/gcm/x/registration/{uaid}"]
        paths += [f"/m/{self._text()}", f"/v1/webpush/x/registration/{uaid}/subscription", "/"]
        path = quote(dice.choice(paths), safe="/%?&=+~")
        return self._bytes(method, path, {"TTL": "0"}, self._text().encode())

    def _broken(self) -> bytes:
        dice, data = self._dice, self._push()
        for _ in range(dice.randrange(1, 4)):
            at = dice.randrange(len(data))
            what = dice.choice([*TOKENS, data[at : at + 20] * 2, dice.randbytes(3)])
            data = data[:at] + what + data[at + dice.randrange(30) :]
        return data

    def _text(self) -> str:
        dice = self._dice
        letters = [chr(dice.randrange(0x20, 0x7F)) for _ in range(dice.randrange(1, 60))]
        return "".join(letters)

    def _bytes(self, method: str, path: str, lines: dict[str, str], body: bytes) -> bytes:
        head = [f"{method} {path} HTTP/1.1", "Host: h", f"Content-Length: {len(body)}"]
        head += [f"{name}: {value}" for name, value in lines.items()]
        return "\r\n".join([*head, "", ""]).encode("latin-1", "replace") + body
