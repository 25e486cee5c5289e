import pytest

from autopush.webpush.errors import ERRORS, Errno, PushError, error_members, reason_phrase
from support.cases import cases

# errno → status as the HTTP reference lists them.
REFERENCE = dict.fromkeys((101, 108, 110, 111, 112, 113, 114), 400)
REFERENCE |= {0: 404, 102: 404, 103: 410, 104: 413, 105: 410, 106: 410, 109: 401}
REFERENCE |= {1: 500, 2: 500, 3: 500, 900: 500, 999: 500, 901: 502, 902: 502, 903: 502}
REFERENCE |= {4: 503, 5: 503, 201: 503, 202: 503, 205: 503}
REFERENCE |= {115: 400, 120: 401, 121: 403, 122: 400, 123: 401, 203: 429, 204: 429}


def test_the_table_is_the_reference() -> None:
    assert {errno: kind.status for errno, kind in ERRORS.items()} == REFERENCE


@cases("errno", ERRORS)
def test_every_row_says_what_to_do_and_where_to_read_on(errno: int) -> None:
    kind = ERRORS[errno]
    assert kind.title
    assert kind.help.endswith(".")
    assert kind.anchor == f"errno-{errno}"


def test_an_error_has_the_documented_members() -> None:
    error = PushError.invalid(Errno.INVALID_ENDPOINT, "invalid token")
    assert error_members(error, "https://push.example/errors#errno-102") == {
        "code": 404,
        "errno": 102,
        "error": "Not Found",
        "message": "Request did not validate invalid token",
        "more_info": "https://push.example/errors#errno-102",
    }


def test_an_error_with_fields_lists_them() -> None:
    error = PushError(Errno.MISSING_HEADER, "x", errors={"encryption": ("Missing.",)})
    assert error_members(error, "")["errors"] == {"encryption": ["Missing."]}


@pytest.mark.parametrize(
    ("errno", "headers"),
    [
        (Errno.INVALID_SUBSCRIPTION, (("Cache-Control", "max-age=86400"),)),
        (Errno.INVALID_AUTHENTICATION, (("WWW-Authenticate", "vapid"),)),
        (Errno.BACK_OFF, (("Retry-After", "120"),)),
        (Errno.RETRY, ()),
        (Errno.INVALID_TTL, ()),
    ],
)
def test_the_status_implies_a_header_or_none(
    errno: int, headers: tuple[tuple[str, str], ...]
) -> None:
    assert PushError(errno, "x").headers == headers


def test_a_header_of_its_own_replaces_the_implied_one() -> None:
    own = (("www-authenticate", "webpush"),)
    assert PushError(Errno.INVALID_AUTHENTICATION, "x", headers=own).headers == own
    other = (("X-A", "b"),)
    assert PushError(Errno.BACK_OFF, "x", headers=other).headers == (
        ("X-A", "b"),
        ("Retry-After", "120"),
    )


def test_a_status_of_its_own_decides_code_phrase_and_headers() -> None:
    error = PushError(Errno.INVALID_ENDPOINT, "x", status=410)
    document = error_members(error, "")
    assert (document["code"], document["error"]) == (410, "Gone")
    assert error.headers == (("Cache-Control", "max-age=86400"),)


def test_an_unknown_status_still_has_a_phrase() -> None:
    assert reason_phrase(599) == "Error"
    assert reason_phrase(418) == "I'm a Teapot"
