import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.webpush.origin import origin_of


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "url", ["", "push.example", "/path", "mailto:a@b.c", "https://", "http://a:99999", "http://[::"]
)
def test_what_has_no_origin_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        origin_of(url)


@given(st.text() | st.text().map("https://".__add__))
def test_random_text_has_an_origin_or_raises_value_error(url: str) -> None:
    with contextlib.suppress(ValueError):
        assert "://" in origin_of(url)
