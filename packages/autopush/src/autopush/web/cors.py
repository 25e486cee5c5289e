"""What every answer of the endpoint carries: CORS, so that web pages may call it, and HSTS.

Rule: the headers of a route are worked out once, when the service starts.
"""

from typing import Final

from autopush.net.http_messages import HeaderBlock, header_block

PUSH_HEADERS: Final = (
    "content-encoding,encryption,crypto-key,ttl,encryption-key,content-type,authorization,"
    "topic,urgency"
)
MAX_AGE: Final = "3600"


class CommonHeaders:
    """The header blocks of the endpoint's routes. `hsts_max_age`: seconds, 0 for no header."""

    def __init__(self, *, cors: bool, hsts_max_age: int) -> None:
        self._cors = cors
        self._hsts = hsts_max_age
        self.push = self._block("POST", PUSH_HEADERS, "location,www-authenticate")
        self.message = self._block("DELETE", "", "location")
        self.other = self._block("", "", "")

    def of(self, path: str) -> HeaderBlock:
        """The block for that path."""
        if path.startswith("/wpush/"):
            return self.push
        return self.message if path.startswith("/m/") else self.other

    def _block(self, methods: str, allowed: str, exposed: str) -> HeaderBlock:
        headers: list[tuple[str, str]] = []
        if self._cors:
            headers.append(("Access-Control-Allow-Origin", "*"))
            if methods:
                headers += [
                    ("Access-Control-Allow-Methods", methods),
                    ("Access-Control-Allow-Headers", allowed),
                    ("Access-Control-Expose-Headers", exposed),
                    ("Access-Control-Max-Age", MAX_AGE),
                ]
        if self._hsts:
            value = f"max-age={self._hsts};includeSubDomains"
            headers.append(("Strict-Transport-Security", value))
        return header_block(headers)
