"""Origins of URLs (RFC 6454): scheme, host and port, in one spelling.

Rule: two URLs have one origin exactly when :func:`origin_of` gives one text for both.
"""

from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def origin_of(url: str) -> str:
    """``scheme://host[:port]`` in lower case, without the scheme's default port.

    :raises ValueError: no scheme, no host, or an impossible port
    """
    parts = urlsplit(url)
    host = parts.hostname
    if not parts.scheme or not host:
        raise ValueError(f"not an absolute URL: text of {len(url)} characters")
    if not host.isascii():
        host = host.encode("idna").decode()
    if ":" in host:
        host = f"[{host}]"
    port = parts.port
    if port is None or port == _DEFAULT_PORTS.get(parts.scheme):
        return f"{parts.scheme}://{host}"
    return f"{parts.scheme}://{host}:{port}"
