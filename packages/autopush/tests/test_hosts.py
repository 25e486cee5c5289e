import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.hosts import canonical_host, canonical_url, origin_of
from support.cases import cases


@cases(
    ("host", "canonical"),
    [
        ("push.example", "push.example"),
        ("PUSH.Example.", "push.example"),
        ("localhost.", "localhost"),
        ("my_host", "my_host"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("BU\u0308CHER.example", "xn--bcher-kva.example"),
        ("XN--Bcher-KVA.example", "xn--bcher-kva.example"),
        ("b%C3%BCcher.example", "xn--bcher-kva.example"),
        ("stra\u00dfe.example", "xn--strae-oqa.example"),
        ("\u4f8b\u3048\u3002\u30c6\u30b9\u30c8", "xn--r8jz45g.xn--zckzah"),
        ("\uff21.example", "a.example"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("0000:0000::0001", "::1"),
        ("::", "::"),
        ("0:0:0:0:0:0:0:0", "::"),
        ("2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
        ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
        ("fe80:0:0:0:0:0:0:0", "fe80::"),
        ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
        ("::ffff:192.0.2.1", "::ffff:c000:201"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("123456789012", "123456789012"),
        ("node1.1a", "node1.1a"),
    ],
)
def test_a_host_has_one_spelling(host: str, canonical: str) -> None:
    assert canonical_host(host) == canonical
    assert canonical_host(canonical) == canonical


@cases(
    "host",
    [
        "",
        ".",
        "a..b",
        "a b",
        "a/b",
        "x" * 64,
        "\u00e9" * 64,
        "::1::",
        "fe80::1%eth0",
        "\uff0f.example",
    ],
)
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError):
        canonical_host(host)


def test_a_long_host_is_refused_in_linear_time() -> None:
    for piece in ("\u00e4", "a", ".", "a.", "%41", ":", "0"):
        for text in (piece * 1000, piece * 1_000_000):
            with contextlib.suppress(ValueError):
                assert len(canonical_host(text)) <= 1000


@given(st.text() | st.from_regex(r"[0-9a-f:.x]{1,20}", fullmatch=True))
def test_a_canonical_host_is_ascii_and_stays_as_it_is(host: str) -> None:
    with contextlib.suppress(ValueError):
        canonical = canonical_host(host)
        assert canonical.isascii()
        assert canonical_host(canonical) == canonical


@pytest.mark.parametrize(
    ("url", "prefix"),
    [
        ("https://[0:0:0:0:0:0:0:1]:8443/", "https://[::1]:8443"),
        ("HTTPS://Push.Example.:443/a/", "https://push.example/a"),
        ("http://b\u00fccher.example:80/A", "http://xn--bcher-kva.example/A"),
    ],
)
def test_a_url_is_made_canonical_up_to_its_path(url: str, prefix: str) -> None:
    assert canonical_url(url) == prefix


# ── origins ──────────────────────────────────────────────────────────────────────────────────────


@cases(
    ("url", "origin"),
    [
        ("https://push.example", "https://push.example"),
        ("https://push.example/", "https://push.example"),
        ("https://push.example:443/wpush/v1/x?y#z", "https://push.example"),
        ("HTTPS://Push.Example:8443", "https://push.example:8443"),
        ("http://localhost:80", "http://localhost"),
        ("http://localhost:443", "http://localhost:443"),
        ("http://[::1]:8082/", "http://[::1]:8082"),
        ("https://user:pw@push.example", "https://push.example"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ],
)
def test_an_origin_has_one_spelling(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@cases(
    "url", ["", "push.example", "/path", "mailto:a@b.c", "https://", "http://a:99999", "http://[::"]
)
def test_what_has_no_origin_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        origin_of(url)


@given(st.text() | st.text().map("https://".__add__))
def test_random_text_has_an_origin_or_raises_value_error(url: str) -> None:
    with contextlib.suppress(ValueError):
        assert "://" in origin_of(url)
