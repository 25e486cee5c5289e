"""What clients write in headers and query strings is parsed in steps that grow with its length.

Steps are counted, not timed: the instructions of Python that a parser executes. What one
instruction does in C, such as `split`, reads its text once; patterns could take longer, so those
that are applied to text without a bound have no repeat without one.
"""

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import autopush.api
import autopush.net
import autopush.protocol
import autopush.webpush
from autopush.admission import account_of
from autopush.api.app import CommonHeaders
from autopush.api.push import read_update
from autopush.api.receipts import _link, preferences
from autopush.api.request_log import _claims, shown_path
from autopush.hosts import origin_of
from autopush.net.client_limits import TrustedProxies
from autopush.net.frames import answer_handshake
from autopush.net.http_messages import Limits, Request
from autopush.net.http_parser import RequestParser, slice_size
from autopush.net.listener import ProxyHeaderError, parse_proxy_header
from autopush.telemetry.user_agent_names import parse_user_agent
from autopush.webpush.errors import PushError
from autopush.webpush.headers import (
    check_content,
    check_encryption,
    check_topic,
    check_ttl,
    check_urgency,
    parse_crypto_key,
)
from autopush.webpush.syntax import without_padding
from autopush.webpush.tokens import RegistrationSecrets
from autopush.webpush.vapid import Verifier
from support.cases import cases

KEYS = "sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="
UPGRADE = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-version": "13"} | {
    KEYS[0]: KEYS[1]
}
HEADERS = CommonHeaders(cors=True, hsts_max_age=1)
PROXIES = TrustedProxies(["127.0.0.0/8"])
SECRETS = RegistrationSecrets(["key"])
VERIFIER = Verifier("https://push.example")

PIECES = [
    "a",
    "=",
    ",",
    ";",
    '"',
    "<>;",
    "<a>;rel=b,",
    '<">;rel="',
    "a=b;",
    "a=b,",
    'a = b ; c=" ,',
    ", ",
    " ",
    "= ",
    "0",
    "%41",
    "&a=b",
    "127.0.0.1,",
    ":",
    ".",
    "/",
    "ä",
    "vapid t=a,k=b,",
    "Android ",
    "iPhone OS ",
]


def parsed_http(header: str) -> Callable[[str], object]:
    def parse(text: str) -> object:
        parser = RequestParser(Limits(max_body=1), "192.0.2.1")
        target = text if header == "target" else "/"
        line = "" if header == "target" else f"{header}: {text}\r\n"
        head = f"GET {target} HTTP/1.1\r\nHost: a\r\n{line}\r\n".encode()
        size = slice_size(Limits(max_body=1))
        for start in range(0, len(head), size):
            if not parser.stopped:
                parser.feed(head[start : start + size])
        return parser.error

    return parse


def lines_of_one_name(text: str) -> object:
    """A header in as many lines as allowed."""
    lines = (f"X: {text[start : start + 400]}\r\n" for start in range(0, len(text), 400))
    parser = RequestParser(Limits(max_body=1), "192.0.2.1")
    parser.feed(f"GET / HTTP/1.1\r\nHost: a\r\n{''.join(lines)}\r\n".encode()[:8000])
    return parser.error


PARSERS: dict[str, Callable[[str], object]] = {
    "Link": _link,
    "Prefer": preferences,
    "TTL": check_ttl,
    "Topic": check_topic,
    "Urgency": check_urgency,
    "Content-Type": lambda text: check_content(
        {"ttl": "1", "content-encoding": "aes128gcm", "content-type": f"+{text}"}, b"x"
    ),
    "Content-Encoding": lambda text: check_encryption({"content-encoding": text}),
    "Encryption": lambda text: check_encryption(
        {"content-encoding": "aesgcm", "encryption": text, "crypto-key": "dh=a"}
    ),
    "Encryption, salt": lambda text: check_encryption(
        {"content-encoding": "aesgcm", "encryption": f"salt={text}", "crypto-key": "dh=a"}
    ),
    "Encryption-Key": lambda text: check_encryption(
        {"content-encoding": "aesgcm128", "encryption": "salt=a", "encryption-key": text}
    ),
    "Crypto-Key": parse_crypto_key,
    "Crypto-Key, for the user agent": without_padding,
    "Authorization": lambda text: VERIFIER.credentials(text, None),
    "Authorization: vapid": lambda text: VERIFIER.credentials(f"vapid {text}", None),
    "Authorization: WebPush": lambda text: VERIFIER.credentials(f"WebPush {text}", text),
    "Authorization, of a registration": lambda text: SECRETS.check(text, "0" * 32),
    "Authorization, of a user": lambda text: account_of(
        Request("GET", "/", "", {"authorization": text}, "")
    ),
    "Authorization, in the log": lambda text: _claims({"authorization": text}),
    "an audience": origin_of,
    "path": lambda text: account_of(Request("GET", f"/{text}", "", {}, "")),
    "path, in the log": shown_path,
    "path, for the common headers": lambda text: HEADERS.of(f"/v1/{text}/registration/{text}"),
    "query string, form": lambda text: read_update(text.encode(), 0),
    "X-Forwarded-For": lambda text: PROXIES.client("127.0.0.1", text),
    "User-Agent": parse_user_agent,
    "PROXY": lambda text: parse_proxy_header(f"PROXY TCP4 {text}\r\n".encode()),
    "PROXY, version 2": lambda text: parse_proxy_header(
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x0f\x00" + text.encode()
    ),
    "a chain of headers": lines_of_one_name,
    **{
        f"{name}, of an upgrade": lambda text, name=name: answer_handshake(  # type: ignore[misc]
            "GET", "1.1", UPGRADE | {name.lower(): text}, subprotocols=("push-notification",)
        )
        for name in ("Upgrade", "Connection", "Sec-WebSocket-Key", "Sec-WebSocket-Protocol")
    },
    **{
        f"{name}, in the head": parsed_http(name)
        for name in ("target", "Host", "Cookie", "Content-Length", "Expect", "Transfer-Encoding")
    },
}


def steps(parse: Callable[[str], object], text: str) -> int:
    """Instructions that are executed."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with suppress(PushError, ValueError, ProxyHeaderError):
            parse(text)
    finally:
        sys.settrace(before)
    return count


@cases("name", PARSERS)
def test_twice_the_length_takes_at_most_twice_the_steps(name: str) -> None:
    parse = PARSERS[name]
    for piece in PIECES:
        short, long = ((piece * 16384)[:length] for length in (8192, 16384))
        steps(parse, piece)  # what happens once
        taken = steps(parse, long)
        assert taken <= 2.1 * steps(parse, short) + 500, piece
        assert taken <= 60 * 16384, piece


def test_the_count_finds_what_is_quadratic() -> None:
    def compare(text: str) -> int:
        return sum(1 for one in text for other in text if one != other)

    short, long = (steps(compare, "a" * length) for length in (64, 128))
    assert long > 3 * short


# ── patterns ────────────────────────────────────────────────────────────────────────────────────


def patterns() -> Iterator[tuple[str, str]]:
    for package in (autopush.api, autopush.net, autopush.protocol, autopush.webpush):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, re.Pattern):
                    yield f"{module.name}.{name}", value.pattern


def unbounded_repeats(pattern: str) -> int:
    parsed = re._parser.parse(pattern)  # type: ignore[attr-defined]
    most = re._constants.MAXREPEAT  # type: ignore[attr-defined]

    def count(node: Any) -> int:
        if isinstance(node, tuple) and len(node) == 3 and node[1] is most:
            return 1 + count(list(node[2]))
        if isinstance(node, (tuple, list)) or type(node).__name__ == "SubPattern":
            return sum(count(each) for each in node)
        return 0

    return count(list(parsed))


def test_no_pattern_has_a_repeat_without_a_bound() -> None:
    assert unbounded_repeats(r"a+b*") == 2
    assert unbounded_repeats(r"(?:a{1,5}|b?)c{3}") == 0
    found = dict(patterns())
    assert found, "there are some"
    assert {name: each for name, each in found.items() if unbounded_repeats(each)} == {}
