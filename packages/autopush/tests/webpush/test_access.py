"""Who may send to an endpoint: its version, its key, and whether the sender is known."""

import pytest

from autopush.webpush.errors import PushError
from autopush.webpush.tokens import Endpoint, EndpointTokens, KeyRing, key_hash, new_key
from autopush.webpush.vapid import Credentials, Verifier, check_access
from support.cases import cases
from support.senders import Sender

UAID = "deadbeef00000000deadbeef00000001"
CHID = "12345678-aaaa-bbbb-cccc-1234567890ab"
ORIGIN = "https://push.example"
TOKENS = EndpointTokens(KeyRing([new_key()]), ORIGIN)
SENDER, OTHER = Sender(), Sender()
CLAIMS = {"aud": ORIGIN, "exp": 1_700_000_000}
VAPID = SENDER.vapid(CLAIMS)
BEARER = f"Bearer {SENDER.token(CLAIMS)}"

V1 = Endpoint(UAID, CHID)
V2 = Endpoint(UAID, CHID, key_hash(SENDER.point))


def credentials(
    authorization: str | None = VAPID, crypto_key: str | None = None, *, known: bool = False
) -> Credentials | None:
    """What a verifier makes of these headers; `known`: it has verified them before."""
    verifier = Verifier(ORIGIN)
    found = verifier.credentials(authorization, crypto_key)
    if known:
        assert found is not None
        verifier.remember(found, verifier.verify(found))
        found = verifier.credentials(authorization, crypto_key)
        assert found is not None
        assert found.claims is not None
    return found


def refusal(endpoint: Endpoint, version: str | None, sender: Credentials | None) -> tuple[int, int]:
    with pytest.raises(PushError) as caught:
        check_access(endpoint, version, sender)
    return caught.value.status, caught.value.errno


@pytest.mark.parametrize("version", ["v1", None])
@pytest.mark.parametrize("authorization", [None, VAPID])
def test_a_v1_token_fits_v1_and_no_version(version: str | None, authorization: str | None) -> None:
    check_access(V1, version, credentials(authorization))
    assert refusal(V2, version, credentials(authorization)) == (404, 102)


def test_a_v2_token_fits_v2_with_authorization_only() -> None:
    check_access(V2, "v2", credentials())
    assert refusal(V2, "v2", None) == (401, 109)


def test_a_v1_token_on_v2_is_401_without_authorization_and_404_with_it() -> None:
    assert refusal(V1, "v2", None) == (401, 109)
    assert refusal(V1, "v2", credentials()) == (404, 102)


@cases("version", ["v0", "v3", "v", "", "V1", "v01"])
@cases("endpoint", [V1, V2])
@cases("authorization", [None, VAPID])
def test_an_unknown_version_is_404(
    endpoint: Endpoint, version: str, authorization: str | None
) -> None:
    assert refusal(endpoint, version, credentials(authorization)) == (404, 102)


@pytest.mark.parametrize("known", [False, True])
def test_a_v2_endpoint_takes_its_own_key_only(known: bool) -> None:
    check_access(V2, "v2", credentials(known=known))
    check_access(V2, "v2", credentials(BEARER, f"p256ecdsa={SENDER.key_text}", known=known))
    other = credentials(OTHER.vapid(CLAIMS), known=known)
    assert refusal(V2, "v2", other) == (401, 109)
    old = f"Bearer {OTHER.token(CLAIMS)}"
    other = credentials(old, f"p256ecdsa={OTHER.key_text}", known=known)
    assert refusal(V2, "v2", other) == (401, 109)
    with pytest.raises(PushError, match="Key mismatch"):
        check_access(V2, "v2", other)


def test_a_v1_endpoint_takes_any_key_and_leaves_it_to_the_verifier() -> None:
    check_access(V1, "v1", credentials(OTHER.vapid(CLAIMS)))
    check_access(V1, "v1", credentials(BEARER, "p256ecdsa=invalid|"))


def test_a_key_in_another_form_than_registered_is_another_key() -> None:
    raw = f"vapid t={SENDER.token(CLAIMS)},k={SENDER.key_text[:-4]}"
    assert refusal(V2, "v2", credentials(raw)) == (401, 109)


@pytest.mark.parametrize("crypto_key", [None, "dh=abc", "p256ecdsa=", "p256ecdsa=invalid|"])
def test_a_v2_endpoint_needs_a_key_in_the_first_draft(crypto_key: str | None) -> None:
    assert refusal(V2, "v2", credentials(BEARER, crypto_key)) == (401, 109)


def test_a_known_sender_does_not_hide_a_wrong_version() -> None:
    assert refusal(V1, "v2", credentials(known=True)) == (404, 102)
    assert refusal(V2, "v1", credentials(known=True)) == (404, 102)
