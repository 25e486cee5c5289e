"""One spelling for each host and origin, as browsers write it (URL Standard, section 3.5).

    PUSH.Example.       push.example              case; a dot at the end
    bücher.example      xn--bcher-kva.example     IDNA
    0:0:0:0:0:0:0:1     ::1                       the shortest form of IPv6 (RFC 5952)
    127.1, 0x7f000001   127.0.0.1                 IPv4

Rule: hosts and origins are compared in this form only. A browser's origin is in it, so what is
configured differently would refuse its senders.
"""

import ipaddress
import re
import socket
import unicodedata
from typing import Final
from urllib.parse import unquote, urlsplit

DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}

_PLAIN: Final = re.compile(r"([a-z0-9_-]{1,63}\.)*[a-z][a-z0-9_-]{0,62}")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_FORBIDDEN: Final = re.compile(r"[\x00-\x20#%/:<>?@\[\\\]^`{|}\x7f]")
_DOTS: Final = str.maketrans("。．｡", "...")  # noqa: RUF001 - those of IDNA (RFC 3490, section 3.1)
_ZEROS: Final = re.compile(r"\b0(?::0\b)+")
_MAX_HOST: Final = 1024
"""Characters of a host as it is given, of which DNS knows 253: escapes make it longer."""
_MAX_LABEL: Final = 63


def canonical_host(host: str) -> str:
    """A host name or address, without brackets. The argument may be an IPv6 address in them.

    :raises ValueError: not a host
    """
    if len(host) > _MAX_HOST:
        raise ValueError(f"not a host: {len(host)} characters")
    if _PLAIN.fullmatch(host) is not None and "xn--" not in host:
        return host
    if ":" in host:
        return _shortest(ipaddress.IPv6Address(host.removeprefix("[").removesuffix("]")))
    labels = unquote(host).translate(_DOTS).lower().split(".")
    if len(labels) > 1 and not labels[-1]:
        labels.pop()
    labels = [_ascii_label(label) for label in labels]
    name = ".".join(labels)
    if _NUMBER.fullmatch(labels[-1]) is None:
        return name
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except OSError:  # such as the name of a container, for which browsers have no URL
        return name


def _ascii_label(label: str) -> str:
    """The label as it stands in DNS (RFC 5891): in lower case, and in Punycode if not ASCII."""
    if not label.isascii():
        label = unicodedata.normalize("NFKC", label).lower()
        if not label.isascii() and len(label) <= _MAX_LABEL:
            label = f"xn--{label.encode('punycode').decode()}"
    if not label or not label.isascii() or len(label) > _MAX_LABEL or _FORBIDDEN.search(label):
        raise ValueError(f"not a host: a label of {len(label)} characters that DNS does not know")
    return label


def _shortest(address: ipaddress.IPv6Address) -> str:
    """As browsers do, also for addresses that contain one of IPv4."""
    if address.scope_id is not None:
        raise ValueError("not a host: an IPv6 address with a zone")
    number = int(address)
    groups = [f"{number >> shift & 0xFFFF:x}" for shift in range(112, -1, -16)]
    text = ":".join(groups)
    zeros = max(_ZEROS.finditer(text), key=lambda run: len(run[0]), default=None)
    if zeros is None:
        return text
    return f"{text[: zeros.start()].removesuffix(':')}::{text[zeros.end() :].removeprefix(':')}"


def url_host(host: str) -> str:
    """A host for a URL: in lower case, IPv6 in brackets. It must be canonical otherwise."""
    host = host.strip("[]").lower()
    return f"[{host}]" if ":" in host else host


def join_url(scheme: str, host: str, port: int | None, path: str = "") -> str:
    """A URL without the default port; canonical if the host is. `path`: unchanged."""
    suffix = "" if port is None or port == DEFAULT_PORTS.get(scheme) else f":{port}"
    return f"{scheme}://{url_host(host)}{suffix}{path}"


def origin_of(url: str) -> str:
    """``scheme://host[:port]`` without the default port; equal for equal origins only (RFC 6454).

    :raises ValueError: no scheme, no host, or an impossible port
    """
    parts = urlsplit(url)
    if not parts.scheme or not parts.hostname:
        raise ValueError(f"not an absolute URL: text of {len(url)} characters")
    return join_url(parts.scheme, canonical_host(parts.hostname), parts.port)


def canonical_url(url: str) -> str:
    """``url`` as a prefix for paths: no default port, no trailing slash, no query.

    :raises ValueError: not an absolute http or https URL
    """
    origin = origin_of(url)
    if not origin.startswith(("http://", "https://")):
        raise ValueError("expected an http:// or https:// URL")
    after_host = url.partition("://")[2].partition("?")[0].partition("#")[0].partition("/")[2]
    return f"{origin}/{after_host}".rstrip("/")
