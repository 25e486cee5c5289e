"""The first steps of a push: from its URL and headers to an endpoint and a sender.

Rule: the order is endpoint token, Crypto-Key, Authorization, version, key; what fails first is
answered. Storage is asked only afterwards, and the signature comes last of all.
"""

import msgspec

from autopush.webpush.endpoint_token import (
    Endpoint,
    EndpointTokens,
    check_key_hash,
    check_version,
    key_hash,
)
from autopush.webpush.parameters import parse_crypto_key
from autopush.webpush.vapid import Credentials, Verified, Verifier, parse


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """An endpoint, and its sender: anonymous (both None), known from before, or to be verified.

    ``verified`` still has to pass ``Verifier.check``; ``credentials`` first ``Verifier.verify``.
    """

    endpoint: Endpoint
    verified: Verified | None = None
    credentials: Credentials | None = None


def admit(
    tokens: EndpointTokens,
    verifier: Verifier,
    version: str | None,
    token: str,
    authorization: str | None,
    crypto_key: str | None,
) -> Admitted:
    """Open the endpoint of ``/wpush/{version}/{token}`` and see who asks.

    :raises PushError: 404/102, 400/110 or 401/109
    """
    endpoint = tokens.open(token)
    if authorization is None:
        if crypto_key:
            parse_crypto_key(crypto_key)
        check_version(endpoint, version, authorized=False)
        return Admitted(endpoint)
    verified = verifier.cached(authorization, crypto_key)
    if verified is not None:
        if verified.draft == 2 and crypto_key:
            parse_crypto_key(crypto_key)
        check_version(endpoint, version, authorized=True)
        check_key_hash(endpoint, verified.key_hash)
        return Admitted(endpoint, verified)
    credentials = parse(authorization, crypto_key)
    check_version(endpoint, version, authorized=True)
    if endpoint.key_hash is not None:
        check_key_hash(endpoint, key_hash(credentials.key()))
    return Admitted(endpoint, None, credentials)
