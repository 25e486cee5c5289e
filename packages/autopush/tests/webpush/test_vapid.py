import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from py_vapid import Vapid01, Vapid02

from autopush.webpush import jwt
from autopush.webpush.errors import PushError
from autopush.webpush.syntax import encode_base64url
from autopush.webpush.tokens import key_hash
from autopush.webpush.vapid import (
    MAX_AUTHORIZATION,
    Claims,
    Credentials,
    Verifier,
    make_authorization,
)
from support.cases import cases
from support.senders import Sender

ORIGIN = "https://push.example"
NOW = 1_700_000_000.0
SENDER = Sender()
CLAIMS: dict[str, object] = {"aud": ORIGIN, "exp": int(NOW) + 3600, "sub": "mailto:ops@a.example"}
TOKEN = SENDER.token(CLAIMS)
KEY = SENDER.key_text


def parse(
    authorization: str, crypto_key: str | None = None, verifier: Verifier | None = None
) -> Credentials:
    credentials = (verifier or Verifier(ORIGIN)).credentials(authorization, crypto_key)
    assert credentials is not None
    return credentials


def verify(authorization: str, crypto_key: str | None = None) -> Claims:
    verifier = Verifier(ORIGIN)
    claims = verifier.verify(parse(authorization, crypto_key))
    verifier.check(claims, NOW)
    return claims


def remembered(verifier: Verifier, authorization: str, crypto_key: str | None = None) -> bool:
    """Whether the verifier knows the sender of these headers."""
    return parse(authorization, crypto_key, verifier).claims is not None


def refusal(authorization: str, crypto_key: str | None = None) -> str:
    """The message of a 401 with errno 109."""
    with pytest.raises(PushError) as caught:
        verify(authorization, crypto_key)
    assert (caught.value.status, caught.value.errno) == (401, 109)
    assert ("WWW-Authenticate", "vapid") in caught.value.headers
    assert caught.value.message.startswith("Request did not validate ")
    return caught.value.message


@cases(
    "authorization",
    [
        f"vapid t={TOKEN},k={KEY}",
        f"vapid t={TOKEN}, k={KEY}",
        f"vapid k={KEY},t={TOKEN}",
        f"VAPID  t = {TOKEN} ,\tk = {KEY} ",
        f'Vapid t="{TOKEN}", k="{KEY}"',
        f"vapid T={TOKEN},K={KEY}",
        f"vapid t={TOKEN},k={KEY}=",
        f"vapid t={TOKEN},k={KEY},x=y",
    ],
)
def test_rfc_8292_is_understood_however_it_is_spaced(authorization: str) -> None:
    verify(authorization)
    credentials = parse(authorization)
    assert (credentials.draft, credentials.token) == (2, TOKEN)
    assert credentials.key() == SENDER.point
    assert credentials.key_hash() == key_hash(SENDER.point)


@cases("crypto_key", [f"p256ecdsa={KEY}", f'keyid="a1"; dh="x";p256ecdsa="{KEY}="'])
@cases("scheme", ["Bearer", "bearer", "WebPush", "WEBPUSH"])
def test_the_first_draft_takes_its_key_from_crypto_key(scheme: str, crypto_key: str) -> None:
    verify(f"{scheme}  {TOKEN} ", crypto_key)
    credentials = parse(f"{scheme}  {TOKEN} ", crypto_key)
    assert (credentials.draft, credentials.token) == (1, TOKEN)
    assert credentials.key() == SENDER.point


@cases(
    ("authorization", "said"),
    [
        (f"vapid t={TOKEN}; k={KEY}", 'got ";" in place of the comma'),
        (f"vapid k={KEY};t={TOKEN}", 'got ";" in place of the comma'),
        (f'vapid t="{TOKEN}"; k="{KEY}"', 'got ";" in place of the comma'),
        (f"vapid t={TOKEN}&k={KEY}", 'got "&" in place of the comma'),
        (f"vapid t={TOKEN} k={KEY}", 'got " " in place of the comma'),
        (f"vapid t={TOKEN}\tk={KEY}", "in place of the comma"),
        (f"vapid {TOKEN},{KEY}", "without t= or k="),
        (f"vapid {TOKEN}", "without t= or k="),
        (f"vapid t:{TOKEN},k:{KEY}", "got t: in place of t="),
        (f"vapid t={TOKEN},k=", "got k= without a value"),
        (f"vapid t={TOKEN},p256ecdsa={KEY}", "got t=, p256ecdsa="),
        ("vapid", "got nothing"),
        (f"Vapid: t={TOKEN},k={KEY}", "a colon after the scheme: Vapid:"),
        (f"vapid:t={TOKEN},k={KEY}", "no space after the scheme"),
        (f"t={TOKEN},k={KEY}", "the scheme vapid is missing"),
        (TOKEN, "a token without a scheme"),
        (f"Basic {KEY}", "got the scheme Basic"),
        (f"key={KEY}", f"{len(KEY) + 4} characters"),
        ("", "got an empty header"),
        (f"Bearer t={TOKEN},k={KEY}", "t= and k= have the scheme vapid"),
    ],
)
def test_what_is_wrong_with_a_header_is_named_without_token_and_key(
    authorization: str, said: str
) -> None:
    text = refusal(authorization)
    assert said in text
    assert "t=<token>,k=<key>" in text
    assert TOKEN[:20] not in text
    assert KEY[:20] not in text


@pytest.mark.parametrize("crypto_key", [None, "", "dh=abc", "p256ecdsa="])
def test_the_first_draft_without_a_key_is_401(crypto_key: str | None) -> None:
    assert "p256ecdsa" in refusal(f"Bearer {TOKEN}", crypto_key)


COMPRESSED = encode_base64url(bytes([2]) + SENDER.point[1:33])
OFF_THE_CURVE = encode_base64url(SENDER.point[:-1] + bytes([SENDER.point[-1] ^ 1]))


@cases(
    "key",
    [
        *("invalid", "invalid|", "YQ", "=", "é", "A" * 8000),
        *(Sender().key_text, KEY[:-4], COMPRESSED, OFF_THE_CURVE),
    ],
)
def test_a_key_that_is_none_or_did_not_sign_is_401(key: str) -> None:
    refusal(f"vapid t={TOKEN},k={key}")
    if key.isascii():
        refusal(f"Bearer {TOKEN}", f"p256ecdsa={key}")


@cases("crypto_key", ["invalid", "p256ecdsa", ";;;", "p256ecdsa=a;;", "é=a"])
def test_a_crypto_key_that_cannot_be_parsed_is_400(crypto_key: str) -> None:
    for authorization in (f"Bearer {TOKEN}", f"vapid t={TOKEN},k={KEY}"):
        with pytest.raises(PushError) as caught:
            parse(authorization, crypto_key)
        assert (caught.value.status, caught.value.errno) == (400, 110)


ZEROS = TOKEN.rpartition(".")[0] + "." + "A" * 86
UNSIGNED = TOKEN.rpartition(".")[0] + "."


@cases("token", ["a", "a.b.c", TOKEN[:-3], f"{TOKEN}x", TOKEN[1:], f".{TOKEN}", ZEROS, UNSIGNED])
def test_a_broken_token_is_401(token: str) -> None:
    assert "Invalid Authorization Header" in refusal(f"vapid t={token},k={KEY}")


@cases(
    ("exp", "said"),
    [
        ("x", ('got "x"', "number of seconds")),
        (str(int(NOW)), ("in quotes", "number of seconds")),
        ("2026-11-28T00:00:00Z", ('got "2026-11-28T00:00:00Z"', "number of seconds")),
        (True, ("got true", "number of seconds")),
        ([int(NOW)], (f"got [{int(NOW)}]", "number of seconds")),
        ({"a": 1}, ('got {"a": 1}', "number of seconds")),
        (None, ("got null", "number of seconds")),
        (int(NOW + 60) * 1000, ("milliseconds", "24 hours")),
        (int(NOW + 60) * 10**6, ("microseconds", "24 hours")),
        (int(NOW + 60) * 10**9, ("nanoseconds", "24 hours")),
        (10**400, ("beyond all dates", "24 hours")),
        (NOW + 90_000, ("90000 s", "24 hours")),
        (NOW + 86_400.5, ("24 hours",)),
        (3600, ("seconds from now", "expired")),
        (NOW - 4000, ("expired 4000 s (66 min) ago",)),
        (float("nan"), ("exp", "NaN")),
    ],
)
def test_a_wrong_expiry_is_shown_with_what_is_expected(exp: object, said: tuple[str, ...]) -> None:
    text = refusal(SENDER.vapid({**CLAIMS, "exp": exp}))
    for each in said:
        assert each in text


@cases(
    ("audience", "said"),
    [
        ("http://push.example", "got http://push.example"),
        ("https://user:secret@a.example/path", "got https://a.example"),
        ("push.example", 'got "push.example"'),
        (["https://a.example", 5], "got https://a.example, 5"),
        (True, "got true"),
        ("", 'got ""'),
        ("x" * 5000, "got"),
    ],
)
def test_a_wrong_audience_is_shown_with_the_one_expected(audience: object, said: str) -> None:
    text = refusal(SENDER.vapid({**CLAIMS, "aud": audience}))
    assert said in text
    assert "secret" not in text
    assert len(text) < 300


@cases(
    ("header", "said"),
    [
        ({"typ": "JWT"}, 'it is missing in the header {"typ": "JWT"}'),
        ({"typ": "JWT", "alg": "HS256"}, 'got "HS256"'),
        ({"alg": 5}, "got 5"),
        ([], "the header is []"),
    ],
)
def test_a_header_of_another_algorithm_is_shown(header: object, said: str) -> None:
    text = refusal(f"vapid t={SENDER.token(CLAIMS, header=header)},k={KEY}")
    assert said in text
    assert "ES256" in text or "JSON object" in text


@pytest.mark.parametrize("claims", [{"aud": ORIGIN}, {"aud": ORIGIN, "exp": None}])
def test_a_token_without_expiry_is_401(claims: dict[str, object]) -> None:
    assert "No expiration" in refusal(SENDER.vapid(claims))


@pytest.mark.parametrize("exp", [NOW, NOW + 0.25, NOW + 60, NOW + 86_400])
def test_an_expiry_may_lie_from_now_to_24_hours_ahead(exp: float) -> None:
    assert verify(SENDER.vapid({**CLAIMS, "exp": exp})).expires == exp


@pytest.mark.parametrize("exp", [NOW - 0.25, NOW - 1, 0, -1])
def test_an_expired_token_is_401_without_grace(exp: float) -> None:
    assert "Auth expired" in refusal(SENDER.vapid({**CLAIMS, "exp": exp}))


@cases(
    "audience",
    [
        *("https://push.example", "https://push.example/", "https://push.example:443"),
        *("HTTPS://PUSH.EXAMPLE", "https://push.example/wpush/v2/abc"),
        *(["https://a.example", "https://push.example"],),
    ],
)
def test_an_audience_is_compared_as_an_origin(audience: object) -> None:
    assert ORIGIN in verify(SENDER.vapid({**CLAIMS, "aud": audience})).audiences


@cases(
    ("public_url", "audience"),
    [
        ("https://[::1]:8443", "https://[0:0:0:0:0:0:0:1]:8443"),
        ("https://[0:0:0:0:0:0:0:1]:8443", "https://[::1]:8443"),
        ("https://push.example", "https://Push.Example.:443"),
        ("https://push.example.", "https://push.example"),
        ("https://b\u00fccher.example", "https://xn--bcher-kva.example"),
        ("https://xn--bcher-kva.example", "https://b\u00fccher.example"),
        ("http://127.1:8080", "http://127.0.0.1:8080"),
        ("https://push.example", ["https://a.example", "https://PUSH.example"]),
    ],
)
def test_hosts_of_audience_and_service_are_compared_in_one_form(
    public_url: str, audience: object
) -> None:
    verifier = Verifier(public_url)
    claims = verifier.verify(parse(SENDER.vapid({**CLAIMS, "aud": audience}), None, verifier))
    verifier.check(claims, NOW)


@cases(
    "audience",
    [
        *("http://push.example", "https://push.example:8443", "https://a.push.example"),
        *("https://push.example.org", "push.example", "x", 5, True, {"a": 1}, "https://[::"),
        *("https://push.example@evil.example", [5, "https://a.example"], "*"),
    ],
)
def test_another_audience_is_401(audience: object) -> None:
    assert "Invalid Audience" in refusal(SENDER.vapid({**CLAIMS, "aud": audience}))


@pytest.mark.parametrize("audience", [None, "", []])
def test_a_token_without_audience_is_401(audience: object) -> None:
    assert "No Audience" in refusal(SENDER.vapid({**CLAIMS, "aud": audience}))
    claims = {name: value for name, value in CLAIMS.items() if name != "aud"}
    assert "No Audience" in refusal(SENDER.vapid(claims))


@pytest.mark.parametrize("subject", [None, 5, ["a"]])
def test_the_subject_is_optional_and_not_checked(subject: object) -> None:
    verify(SENDER.vapid({**CLAIMS, "sub": subject}))


@pytest.mark.parametrize("scheme", ["vapid", "bearer"])
def test_a_sender_is_remembered_by_its_header(scheme: str) -> None:
    verifier = Verifier(ORIGIN)
    authorization = f"vapid t={TOKEN},k={KEY}" if scheme == "vapid" else f"Bearer {TOKEN}"
    crypto_key = None if scheme == "vapid" else f"dh=a;p256ecdsa={KEY}"
    credentials = parse(authorization, crypto_key, verifier)
    claims = verifier.verify(credentials)
    assert not remembered(verifier, authorization, crypto_key)
    verifier.remember(credentials, claims)
    assert parse(authorization, crypto_key, verifier).claims is claims
    assert not remembered(verifier, authorization + "x", crypto_key)


def test_of_too_many_senders_the_ones_used_longest_ago_are_dropped() -> None:
    verifier = Verifier(ORIGIN, cache_size=4)
    first, second, *_, last = headers = [Sender().vapid(CLAIMS) for _ in range(5)]
    for authorization in headers:
        credentials = parse(authorization, None, verifier)
        verifier.remember(credentials, verifier.verify(credentials))
        assert remembered(verifier, first)  # and so used after the second
    assert [remembered(verifier, one) for one in (first, second, last)] == [True, False, True]


def test_in_the_first_draft_the_key_belongs_to_what_is_remembered() -> None:
    verifier = Verifier(ORIGIN)
    authorization = f"Bearer {TOKEN}"
    credentials = parse(authorization, f"p256ecdsa={KEY}")
    verifier.remember(credentials, verifier.verify(credentials))
    # dh is new in each message and does not matter
    assert remembered(verifier, authorization, f"dh=other,p256ecdsa={KEY}")
    other = Sender().key_text
    for crypto_key in (
        None,
        "",
        "dh=a",
        f"p256ecdsa={other}",
        f"p256ecdsa={other};p256ecdsa={KEY}",
    ):
        assert not remembered(verifier, authorization, crypto_key)


def test_a_remembered_sender_is_checked_by_the_clock_at_each_use() -> None:
    verifier = Verifier(ORIGIN)
    claims = verifier.verify(parse(SENDER.vapid(CLAIMS)))
    verifier.check(claims, NOW)
    verifier.check(claims, NOW + 3600)
    with pytest.raises(PushError, match="expired"):
        verifier.check(claims, NOW + 3600.001)
    with pytest.raises(PushError, match="24 hours"):
        verifier.check(claims, NOW - 86_400)


def test_a_header_that_is_too_long_is_401_and_every_other_is_remembered() -> None:
    verifier = Verifier(ORIGIN)
    authorization = SENDER.vapid({**CLAIMS, "x": "y" * 2700})
    assert 3800 < len(authorization) <= MAX_AUTHORIZATION
    credentials = parse(authorization, None, verifier)
    verifier.remember(credentials, verifier.verify(credentials))
    assert remembered(verifier, authorization)
    assert "at most 4096 characters" in refusal(SENDER.vapid({**CLAIMS, "x": "y" * 3000}))


@pytest.mark.parametrize(
    ("origin", "audience", "is_own"),
    [
        ("https://xn--bcher-kva.example", "https://b\u00fccher.example", True),
        ("https://xn--bcher-kva.example", "https://B\u00dcCHER.example:443/wpush", True),
        ("https://xn--bcher-kva.example", "https://xn--bcher-kva.example", True),
        ("https://xn--bcher-kva.example", "https://b\u00e4cher.example", False),
        (ORIGIN, "https://push.ex\u00e4mple", False),
        (ORIGIN, "https://" + "\u00e4" * 4000, False),
    ],
)
def test_an_audience_may_be_written_in_its_own_script(
    origin: str, audience: str, is_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = Verifier(origin)
    monkeypatch.setattr("encodings.idna.ToASCII", None)  # which takes a millisecond
    claims = {**CLAIMS, "aud": ["https://a.example", audience]}
    credentials = Credentials("", 2, TOKEN, KEY)
    monkeypatch.setattr(jwt, "parse", lambda _: jwt.SignedToken(b"", b"", claims))
    monkeypatch.setattr(jwt, "verify", lambda *_: True)
    assert (origin in verifier.verify(credentials).audiences) is is_own


def test_threads_verify_side_by_side() -> None:
    verifier = Verifier(ORIGIN, key_cache_size=2)
    senders = [Sender() for _ in range(4)]
    credentials = [
        parse(sender.vapid({**CLAIMS, "exp": int(NOW) + number}))
        for number, sender in enumerate(senders)
    ] * 10
    with ThreadPoolExecutor(4) as pool:
        claims = list(pool.map(verifier.verify, credentials))
    assert [one.expires for one in claims] == [*range(int(NOW), int(NOW) + 4)] * 10


def test_no_error_shows_a_token_or_a_key() -> None:
    for authorization in (f"vapid t={TOKEN}x,k={KEY}", f"vapid t={TOKEN},k={KEY}*"):
        said = refusal(authorization)
        assert KEY not in said
        assert TOKEN[:20] not in said


def test_a_hostile_header_is_refused_in_linear_time() -> None:
    # 16 KiB is the longest header line; a quadratic search would need seconds, not milliseconds.
    for piece in (" ", ",", '"', "=", "t ", ";k", "ä", "."):
        for text in (f"vapid t=a{piece * 100_000}b", piece * 100_000, f"vapid {piece * 100_000}"):
            refusal(text)


@given(st.text(), st.none() | st.text())
def test_random_headers_are_parsed_or_raise_a_push_error(
    authorization: str, crypto_key: str | None
) -> None:
    for text in (authorization, f"Bearer {authorization}", f"vapid {authorization}"):
        with contextlib.suppress(PushError):
            verify(text, crypto_key)


claim_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["aud", "exp", "sub", "x"]), claim_values))
def test_random_claims_that_are_signed_raise_nothing_but_a_push_error(
    claims: dict[str, object],
) -> None:
    with contextlib.suppress(PushError):
        verify(SENDER.vapid({**CLAIMS, **claims}))


@pytest.mark.parametrize("vapid_class", [Vapid01, Vapid02])
def test_what_py_vapid_signs_is_accepted(vapid_class: type[Vapid01]) -> None:
    vapid = vapid_class()
    vapid.generate_keys()
    headers = vapid.sign({"aud": ORIGIN, "exp": int(NOW) + 60, "sub": "mailto:a@b.example"})
    assert verify(headers["Authorization"], headers.get("Crypto-Key")).expires == int(NOW) + 60


@pytest.mark.parametrize("subject", [None, "mailto:ops@a.example"])
def test_the_header_made_for_a_sender_is_verified(subject: str | None) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    header = make_authorization(
        f"{ORIGIN}/wpush/v2/token", key, expires=int(NOW) + 60, subject=subject
    )
    assert verify(header) == Claims(NOW + 60, (ORIGIN,), subject)
    claims = jwt.parse(parse(header).token).claims
    assert claims.get("sub") == subject
    assert ("sub" in claims) is (subject is not None)
