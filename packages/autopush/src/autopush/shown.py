"""Refused values in the texts of errors: escaped, shortened, and without what may be a secret.

Rule: what comes out is printable ASCII, and no long run of base64 characters, as tokens, keys and
signatures are.
"""

import json
import re
from typing import Final

MAX_SHOWN: Final = 60
"""Characters of a shown value; a longer one ends in dots."""
_MAX_READ: Final = 1000  # of a text, so that a huge one costs little
_SECRET: Final = re.compile(r"[A-Za-z0-9+/=_-]{20,}")


def shown(value: object, *, is_public: bool = False) -> str:
    """A value of a request as JSON, so that a text has quotes. `is_public`: a long run in it is no
    secret, as in a topic or a channel ID.
    """
    if isinstance(value, str) and len(value) > _MAX_READ:
        value = value[:_MAX_READ]
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):  # no JSON, thousands of digits, nested deeply
        return f"a value of the type {type(value).__name__}"
    if not is_public:
        text = _SECRET.sub(lambda run: f"<{len(run[0])} characters>", text)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def span(seconds: float) -> str:
    """A length of time in whole seconds, or in the unit of which there are two at least."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
