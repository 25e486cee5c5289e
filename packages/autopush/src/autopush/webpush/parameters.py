"""Parameter fields: ``label=value`` pairs between ``;`` and ``,`` as in ``Encryption``.

Rule: a field is understood whole or refused whole; the first occurrence of a label wins.
"""

import re

from autopush.webpush.errors import Errno, PushError

# The look-behind keeps a long run of '=' from being tried again at each of its characters.
_PADDING = re.compile(r"(?<!=)=+\s*(?=[,;]|\Z)")


def parse_parameters(field: str) -> dict[str, str]:
    """Labels (lower case) and values (without quotes) of a field.

    :raises ValueError: not ASCII, or a piece without ``=``
    """
    if not field.isascii():
        raise ValueError("expected ASCII text")
    parameters: dict[str, str] = {}
    for piece in field.replace(",", ";").split(";"):
        label, equals, value = piece.partition("=")
        label = label.strip().lower()
        if not equals or not label:
            raise ValueError("expected label=value pairs between ';' or ','")
        parameters.setdefault(label, value.strip().strip('"').strip())
    return parameters


def parse_crypto_key(field: str) -> dict[str, str]:
    """:func:`parse_parameters` of a ``Crypto-Key`` header.

    :raises PushError: 400/110
    """
    return parse_header("Crypto-Key", field)


def parse_header(name: str, field: str) -> dict[str, str]:
    """:func:`parse_parameters` of the header ``name``.

    :raises PushError: 400/110
    """
    try:
        return parse_parameters(field)
    except ValueError as error:
        raise PushError.invalid(Errno.INVALID_CRYPTO, f"Invalid {name} header: {error}") from None


def without_padding(field: str) -> str:
    """The field as user agents read it: no quotes, no base64 padding."""
    return _PADDING.sub("", field.replace('"', ""))
