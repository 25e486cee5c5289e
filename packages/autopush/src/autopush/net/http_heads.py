"""The words of a request head: methods, header names, request targets (RFC 9110, RFC 9112).

The rule: what every client sends is looked up, not decoded; the tables stay bounded.
"""

METHODS = {
    name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
}
"""The methods a handler gets to see."""

_USUAL = """
    Accept Accept-Encoding Accept-Language Authorization Cache-Control Connection Content-Encoding
    Content-Length Content-Type Cookie Crypto-Key Encryption Encryption-Key Expect Forwarded Host
    If-None-Match Keep-Alive Origin Pragma Prefer Referer Sec-Fetch-Dest Sec-Fetch-Mode
    Sec-Fetch-Site Sec-WebSocket-Extensions Sec-WebSocket-Key Sec-WebSocket-Protocol
    Sec-WebSocket-Version Topic Transfer-Encoding TTL Upgrade Urgency User-Agent X-Forwarded-For
    X-Forwarded-Proto X-Real-IP
"""
_MOST_NAMES = 512
_LONGEST_NAME = 40

NAMES: dict[bytes, str] = {}
"""Header names as sent, to lower case: the usual ones, then what clients send, up to a bound."""
for _name in _USUAL.split():
    for _spelling in (_name, _name.lower(), _name.title()):
        NAMES[_spelling.encode()] = _name.lower()


def header_name(name: bytes) -> str:
    """The lower-case form of a name that is not in `NAMES`."""
    text = name.decode("latin-1").lower()
    if len(NAMES) < _MOST_NAMES and len(name) <= _LONGEST_NAME:
        NAMES[name] = text
    return text


def split_target(method: str, target: str) -> tuple[str, str] | None:
    """Host (or "") and path with query of a target that is no path; None if it is neither.

    RFC 9112 section 3.2: the absolute form, and the asterisk of OPTIONS.
    """
    if target == "*":
        return ("", "*") if method == "OPTIONS" else None
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return None
    end = len(rest)
    for mark in "/?":
        found = rest.find(mark)
        if 0 <= found < end:
            end = found
    host, path = rest[:end], rest[end:]
    if not host:
        return None
    return host, path if path.startswith("/") else "/" + path
