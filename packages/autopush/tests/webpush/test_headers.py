import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.webpush.errors import PushError
from autopush.webpush.headers import (
    MISSING_TTL,
    Content,
    check_content,
    check_encryption,
    check_topic,
    check_ttl,
)
from autopush.webpush.syntax import decode_base64url
from support.cases import cases

AES128GCM = {"ttl": "60", "content-encoding": "aes128gcm"}
AESGCM = {
    "ttl": "60",
    "content-encoding": "aesgcm",
    "encryption": 'keyid="http://example.org/bob/keys/123";salt="XZwpw6o37R-6qoZjw6KwAw=="',
    "crypto-key": 'keyid="http://example.org/bob/keys/123";dh="BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV=="',
}
AESGCM128 = {
    "content-encoding": "aesgcm128",
    "encryption": "salt=abc",
    "encryption-key": "dh=def==",
}


def refusal(headers: dict[str, str], body: bytes = b"x", **limits: int) -> tuple[int, int]:
    with pytest.raises(PushError) as caught:
        check_content(headers, body, **limits)
    return caught.value.status, caught.value.errno


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("60", 60), ("007", 7), ("2592000", 2_592_000)]
)
def test_a_ttl_is_whole_seconds(text: str, seconds: int) -> None:
    assert check_ttl(text) == seconds


@cases("text", ["2592001", "9" * 18, str(2**63), f"{10**30}", "9" * 5000, "0" * 5000 + "2592001"])
def test_a_ttl_above_the_cap_is_lowered(text: str) -> None:
    assert check_ttl(text) == 2_592_000
    assert check_ttl(text, 100) == 100


@cases(
    "text", ["", "-1", "-0", "+1", "1.5", "1e3", "abc", "60, 60", "6 0", "0x10", "1_000", "٣", "²"]
)
def test_another_ttl_is_400_with_errno_112(text: str) -> None:
    with pytest.raises(PushError) as caught:
        check_ttl(text)
    assert (caught.value.status, caught.value.errno) == (400, 112)


def test_a_missing_ttl_is_400_with_errno_111() -> None:
    with pytest.raises(PushError) as caught:
        check_ttl(None)
    assert (caught.value.status, caught.value.errno) == (400, 111)
    assert MISSING_TTL in caught.value.message
    assert caught.value.errors is not None
    assert "ttl" in caught.value.errors


@cases(
    ("headers", "said"),
    [
        ({"ttl": "1 day"}, ("seconds", 'got "1 day"')),
        ({"ttl": "60, 60"}, ("seconds", 'got "60, 60"')),
        ({"topic": "a b"}, ("A-Z a-z 0-9 - _", '3 characters: "a b"')),
        ({"topic": "t" * 33}, ("32 characters", "33 characters", "t" * 33)),
        ({"topic": "é"}, ("\\u00e9",)),
        ({"urgency": "low, high"}, ('"low, high"', "very-low, low, normal, high")),
        ({"content-encoding": "gzip"}, ("aes128gcm", 'got "gzip"')),
        ({"content-encoding": ""}, ("aes128gcm", 'got ""')),
        ({}, ("aes128gcm", "there is none")),
        ({**AESGCM, "crypto-key": "keyid=a;p256ecdsa=b"}, ("'dh'", '"keyid", "p256ecdsa"')),
        ({**AESGCM, "crypto-key": "dh"}, ("label=value", 'got "dh"')),
        ({**AESGCM, "crypto-key": "dh=ab*c"}, ("base64url", "4 characters", '"*" is none')),
        ({**AESGCM, "crypto-key": "k" * 87}, ("label=value", "<87 characters>")),
    ],
)
def test_a_refusal_shows_the_value_and_what_is_expected(
    headers: dict[str, str], said: tuple[str, ...]
) -> None:
    with pytest.raises(PushError) as caught:
        check_content({"ttl": "60"} | headers, b"x")
    for each in said:
        assert each in caught.value.message


def test_a_body_that_is_too_large_is_told_its_size() -> None:
    with pytest.raises(PushError, match=r"at most that many .* got 4097"):
        check_content(AES128GCM, b"x" * 4097)


@pytest.mark.parametrize("topic", ["a", "A-Z_09", "-", "_" * 32])
def test_a_topic_has_the_alphabet_of_base64url(topic: str) -> None:
    assert check_topic(topic) == topic


@pytest.mark.parametrize("topic", [None, ""])
def test_an_empty_topic_counts_as_none(topic: str | None) -> None:
    assert check_topic(topic) is None


@cases("topic", ["a" * 33, *("a=", "a b", "a.b", "a:b", "a/b", "a+b", "a, b", "é", "a\n", " ")])
def test_another_topic_is_400_with_errno_113(topic: str) -> None:
    with pytest.raises(PushError) as caught:
        check_topic(topic)
    assert (caught.value.status, caught.value.errno) == (400, 113)


def test_a_push_of_today_needs_ttl_and_encoding_only() -> None:
    body = b"\xc3\x28\xa0\xa1\xe2\x28\xa1"
    assert check_content(AES128GCM, body) == Content(
        60, data="wyigoeIooQ", headers={"encoding": "aes128gcm"}
    )


def test_topic_urgency_and_encoding_are_kept() -> None:
    headers = {**AES128GCM, "topic": "news", "urgency": "high", "content-encoding": " AES128GCM "}
    content = Content(60, "news", "eA", {"encoding": "aes128gcm"}, "high")
    assert check_content(headers, b"x") == content


@pytest.mark.parametrize("urgency", ["very-low", "low", "normal", "high"])
def test_an_urgency_of_rfc_8030_is_kept(urgency: str) -> None:
    assert check_content({**AES128GCM, "urgency": urgency}, b"").urgency == urgency


@pytest.mark.parametrize("urgency", ["High", "", "hurry"])
def test_any_other_urgency_counts_as_none(urgency: str) -> None:
    assert check_content({**AES128GCM, "urgency": urgency}, b"") == Content(60)


@cases("content_type", ["application/octet-stream", "application/json", "", "x", "text/plain;a=b"])
def test_other_content_types_are_not_kept(content_type: str) -> None:
    headers = {**AES128GCM, "content-type": content_type}
    assert check_content(headers, b"x").headers == {"encoding": "aes128gcm"}


@cases("urgency", ["low,high", "high, high", "low, ", ",", "hurry, high"])
def test_several_urgencies_are_400_with_errno_115(urgency: str) -> None:
    assert refusal({"ttl": "1", "urgency": urgency}) == (400, 115)


@given(st.binary(min_size=1, max_size=300))
def test_the_body_becomes_base64url_without_padding(body: bytes) -> None:
    data = check_content(AES128GCM, body).data
    assert data is not None
    assert "=" not in data
    assert decode_base64url(data) == body


def test_aesgcm_headers_are_cleaned_for_the_user_agent() -> None:
    assert check_content(AESGCM, b"x").headers == {
        "encoding": "aesgcm",
        "encryption": "keyid=http://example.org/bob/keys/123;salt=XZwpw6o37R-6qoZjw6KwAw",
        "crypto_key": "keyid=http://example.org/bob/keys/123;dh=BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV",
    }


def test_aesgcm128_headers_are_kept_with_the_encryption_key() -> None:
    assert check_encryption({**AESGCM128, "crypto-key": "p256ecdsa=abc="}) == {
        "encoding": "aesgcm128",
        "encryption": "salt=abc",
        "crypto_key": "p256ecdsa=abc",
        "encryption_key": "dh=def",
    }


@pytest.mark.parametrize("dh", ["+a/b", "+a/b==", '"+a/b="'])
def test_a_public_key_in_the_standard_alphabet_reaches_user_agents_as_base64url(dh: str) -> None:
    kept = check_encryption({**AESGCM, "crypto-key": f"keyid=a;dh={dh};p256ecdsa=x"})
    assert kept["crypto_key"] == "keyid=a;dh=-a_b;p256ecdsa=x"
    kept = check_encryption({**AESGCM128, "encryption-key": f"dh={dh}"})
    assert kept["encryption_key"] == "dh=-a_b"


def test_aes128gcm_may_bring_fields_without_salt_and_dh() -> None:
    extra = {"encryption": "keyid=a;rs=4096", "crypto-key": "p256ecdsa=abc"}
    assert check_encryption({**AES128GCM, **extra}) == {
        "encoding": "aes128gcm",
        "encryption": "keyid=a;rs=4096",
        "crypto_key": "p256ecdsa=abc",
    }


@cases(
    ("headers", "errno"),
    [
        ({"content-encoding": ""}, 110),
        ({"content-encoding": "gzip"}, 110),
        ({"content-encoding": "aes128gcm, gzip"}, 110),
        ({**AES128GCM, "encryption": "salt=abc"}, 110),
        ({**AES128GCM, "encryption": 'keyid="a"; SALT="abc"'}, 110),
        ({**AES128GCM, "crypto-key": "dh=abc"}, 110),
        ({**AES128GCM, "encryption": "garbage"}, 110),
        ({**AES128GCM, "crypto-key": "garbage"}, 110),
        ({**AES128GCM, "encryption-key": "garbage"}, 110),
        ({**AES128GCM, "crypto-key": "p256ecdsa=é"}, 110),
        ({**AESGCM, "encryption": ""}, 111),
        ({**AESGCM, "encryption": "salt="}, 110),
        ({**AESGCM, "encryption": "salt=a+b"}, 110),
        ({**AESGCM, "encryption": "salt=a=b"}, 110),
        ({**AESGCM, "encryption": "salt"}, 110),
        ({**AESGCM, "encryption": "salt=\u0153"}, 110),
        ({**AESGCM, "crypto-key": ""}, 111),
        ({**AESGCM, "crypto-key": "dh=a b"}, 110),
        ({**AESGCM, "encryption-key": "dh=abc"}, 110),
        ({**AESGCM128, "encryption": ""}, 111),
        ({**AESGCM128, "encryption-key": ""}, 111),
        ({**AESGCM128, "crypto-key": "dh=abc"}, 110),
    ],
)
def test_a_forbidden_combination_is_400(headers: dict[str, str], errno: int) -> None:
    assert refusal({"ttl": "60", **headers}) == (400, errno)


@pytest.mark.parametrize(
    ("headers", "label"),
    [
        ({**AESGCM, "encryption": "keyid=a;rs=4096"}, "salt"),
        ({**AESGCM, "crypto-key": "p256ecdsa=abc"}, "dh"),
        ({**AESGCM128, "encryption": "keyid=a"}, "salt"),
        ({**AESGCM128, "encryption-key": "keyid=a"}, "dh"),
    ],
)
def test_a_header_without_its_required_element_is_400_with_errno_101(
    headers: dict[str, str], label: str
) -> None:
    assert refusal({"ttl": "60", **headers}) == (400, 101)
    with pytest.raises(PushError, match=f"Missing '{label}' in {headers['content-encoding']} "):
        check_encryption(headers)


@pytest.mark.parametrize("name", ["encryption", "crypto-key"])
def test_a_missing_header_is_named_as_a_field(name: str) -> None:
    headers = {key: value for key, value in AESGCM.items() if key != name}
    with pytest.raises(PushError) as caught:
        check_content(headers, b"x")
    assert caught.value.errors is not None
    assert list(caught.value.errors) == [name.replace("-", "_")]


@pytest.mark.parametrize(
    "headers", [{}, AES128GCM, AESGCM, {"content-encoding": "gzip", "encryption": "garbage"}]
)
def test_an_empty_body_takes_nothing_of_the_encryption_along(headers: dict[str, str]) -> None:
    assert check_content({**headers, "ttl": "60"}, b"") == Content(60)


def test_the_limit_is_the_last_size_that_fits() -> None:
    assert check_content(AES128GCM, bytes(4096)).data
    assert refusal(AES128GCM, bytes(4097)) == (413, 104)
    assert check_content(AES128GCM, bytes(5630), max_data=5630).data
    with pytest.raises(PushError, match="must be smaller than 10"):
        check_content(AES128GCM, bytes(11), max_data=10)


def test_topic_is_checked_before_ttl_before_urgency_before_size_before_encryption() -> None:
    big = bytes(5000)
    assert refusal({"topic": "a b"}, big) == (400, 113)
    assert refusal({}, big) == (400, 111)
    assert refusal({"ttl": "-1"}, big) == (400, 112)
    assert refusal({"ttl": "1", "urgency": "low, high"}, big) == (400, 115)
    assert refusal({"ttl": "1"}, big) == (413, 104)
    assert refusal({"ttl": "1"}) == (400, 110)


NAMES = [
    "ttl",
    "topic",
    "urgency",
    "content-encoding",
    "encryption",
    "crypto-key",
    "encryption-key",
]
VALUES = (
    st.text()
    | st.sampled_from(["1", "aes128gcm", "aesgcm", "aesgcm128", "salt=a", "dh=a", "dh=a;salt=b"])
    | st.text('salt=dh;," \u0153')
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES), st.binary(max_size=3))
def test_random_headers_are_content_or_a_push_error(headers: dict[str, str], body: bytes) -> None:
    try:
        content = check_content(headers, body)
    except PushError:
        return
    assert 0 <= content.ttl <= 2_592_000
    assert (content.data is None) == (content.headers is None) == (not body)
    for value in (content.headers or {}).values():
        assert value.isascii()
