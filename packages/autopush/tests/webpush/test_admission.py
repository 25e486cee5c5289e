import pytest

from autopush.webpush.admission import Admitted, admit
from autopush.webpush.endpoint_token import EndpointTokens
from autopush.webpush.errors import PushError
from autopush.webpush.keyring import KeyRing, new_key
from autopush.webpush.vapid import Verifier
from support.senders import Sender

UAID = "deadbeef00000000deadbeef00000001"
CHID = "12345678-aaaa-bbbb-cccc-1234567890ab"
ORIGIN = "https://push.example"
TOKENS = EndpointTokens(KeyRing([new_key()]), ORIGIN)
SENDER, OTHER = Sender(), Sender()
CLAIMS = {"aud": ORIGIN, "exp": 1_700_000_000}
VAPID = SENDER.vapid(CLAIMS)

V1 = TOKENS.url(UAID, CHID, None).rpartition("/")[2]
V2 = TOKENS.url(UAID, CHID, SENDER.point).rpartition("/")[2]
GARBAGE = "gAAAAA"


def admitted(
    version: str | None,
    token: str,
    authorization: str | None = None,
    crypto_key: str | None = None,
    verifier: Verifier | None = None,
) -> Admitted:
    return admit(TOKENS, verifier or Verifier(ORIGIN), version, token, authorization, crypto_key)


def refusal(
    version: str | None,
    token: str,
    authorization: str | None = None,
    crypto_key: str | None = None,
    verifier: Verifier | None = None,
) -> tuple[int, int]:
    with pytest.raises(PushError) as caught:
        admitted(version, token, authorization, crypto_key, verifier)
    return caught.value.status, caught.value.errno


def knowing(*authorizations: tuple[str, str | None]) -> Verifier:
    """A verifier that has met these headers before."""
    from autopush.webpush.vapid import parse

    verifier = Verifier(ORIGIN)
    for authorization, crypto_key in authorizations:
        verifier.remember(authorization, verifier.verify(parse(authorization, crypto_key)))
    return verifier


@pytest.mark.parametrize("version", ["v1", None])
def test_a_v1_endpoint_may_be_pushed_to_anonymously(version: str | None) -> None:
    result = admitted(version, V1)
    assert (result.endpoint.uaid, result.endpoint.channel_id) == (UAID, CHID)
    assert result.verified is None
    assert result.credentials is None


@pytest.mark.parametrize(("version", "token"), [("v1", V1), ("v2", V2)])
def test_a_sender_met_first_is_left_to_be_verified(version: str, token: str) -> None:
    result = admitted(version, token, VAPID)
    assert result.verified is None
    assert result.credentials is not None
    assert result.credentials.key() == SENDER.point


@pytest.mark.parametrize(("version", "token"), [("v1", V1), ("v2", V2)])
def test_a_sender_met_before_is_known(version: str, token: str) -> None:
    result = admitted(version, token, VAPID, None, knowing((VAPID, None)))
    assert result.credentials is None
    assert result.verified is not None
    assert result.verified.key == SENDER.point


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("sender", "outcome"), [(SENDER, None), (OTHER, (401, 109))], ids=["its own", "another"]
)
def test_a_v2_endpoint_takes_its_own_key_only(
    sender: Sender, outcome: tuple[int, int] | None, known: bool
) -> None:
    headers = sender.vapid(CLAIMS), None
    verifier = knowing(headers) if known else Verifier(ORIGIN)
    if outcome is None:
        assert admitted("v2", V2, *headers, verifier).endpoint.uaid == UAID
    else:
        assert refusal("v2", V2, *headers, verifier) == outcome
    old = f"Bearer {sender.token(CLAIMS)}", f"p256ecdsa={sender.key_text}"
    verifier = knowing(old) if known else Verifier(ORIGIN)
    if outcome is None:
        assert admitted("v2", V2, *old, verifier).endpoint.uaid == UAID
    else:
        assert refusal("v2", V2, *old, verifier) == outcome


def test_a_v2_endpoint_is_never_anonymous() -> None:
    assert refusal("v2", V2) == (401, 109)


def test_a_key_in_another_form_than_registered_is_another_key() -> None:
    raw = f"vapid t={SENDER.token(CLAIMS)},k={SENDER.key_text[:-4]}"
    assert refusal("v2", V2, raw) == (401, 109)


@pytest.mark.parametrize("crypto_key", [None, "dh=abc", "p256ecdsa=", "p256ecdsa=invalid|"])
def test_a_v2_endpoint_needs_a_key_in_the_first_draft(crypto_key: str | None) -> None:
    assert refusal("v2", V2, f"Bearer {SENDER.token(CLAIMS)}", crypto_key) == (401, 109)


@pytest.mark.parametrize(
    ("version", "token", "authorization", "crypto_key", "outcome"),
    [
        # each row is right up to the step it is about, and wrong in all that follow
        ("v9", GARBAGE, "Basic x", "garbage", (404, 102)),
        ("v2", V1, "Basic x", "garbage", (400, 110)),
        ("v2", V1, None, "garbage", (400, 110)),
        ("v2", V1, "Basic x", "p256ecdsa=*", (401, 109)),
        ("v2", V1, None, None, (401, 109)),
        ("v2", V1, "Bearer x", "p256ecdsa=*", (404, 102)),
        ("v1", V2, "Bearer x", "p256ecdsa=*", (404, 102)),
        (None, V2, None, None, (404, 102)),
        ("v3", V1, None, None, (404, 102)),
        ("v2", V2, "Bearer x", "p256ecdsa=*", (401, 109)),
    ],
)
def test_the_first_failing_step_is_answered(
    version: str | None,
    token: str,
    authorization: str | None,
    crypto_key: str | None,
    outcome: tuple[int, int],
) -> None:
    assert refusal(version, token, authorization, crypto_key) == outcome


def test_a_known_sender_does_not_hide_what_else_is_wrong() -> None:
    verifier = knowing((VAPID, None))
    assert refusal("v2", GARBAGE, VAPID, None, verifier) == (404, 102)
    assert refusal("v2", V2, VAPID, "garbage", verifier) == (400, 110)
    assert refusal("v2", V1, VAPID, None, verifier) == (404, 102)
    assert refusal("v1", V2, VAPID, None, verifier) == (404, 102)
