"""User-Agent headers as they are sent, and what logs and metrics call them."""

from hypothesis import given
from hypothesis import strategies as st

from autopush.telemetry.user_agent_names import (
    BROWSER_FAMILIES,
    CACHED_HEADERS,
    MAX_HEADER,
    MAX_VERSION,
    OS_FAMILIES,
    UserAgentNames,
    parse_user_agent,
)
from support.cases import cases

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
APPLE = "AppleWebKit/605.1.15 (KHTML, like Gecko)"
IPHONE = f"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) {APPLE}"
MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"
LUMIA = "Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950)"


@cases(
    ("header", "names"),
    [
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.13; rv:61.0) Gecko/20100101 Firefox/61.0",
            ("Firefox", "desktop", "Mac OS X", "10.13", "Firefox", "61.0", "Mac OS X", "Firefox"),
        ),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:128.0) Gecko/20100101 Firefox/128.0",
            ("Firefox", "desktop", "Windows", "10", "Firefox", "128.0", "Windows", "Firefox"),
        ),
        (
            "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
            ("Firefox", "desktop", "Linux", "", "Firefox", "128.0", "Linux", "Firefox"),
        ),
        (
            "Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0",
            ("Firefox", "mobile", "Android", "14", "Firefox", "127.0", "Other", "Firefox"),
        ),
        (
            "Mozilla/5.0 (Mobile; rv:26.0) Gecko/26.0 Firefox/26.0",
            ("Firefox", "mobile", "Firefox OS", "", "Firefox", "26.0", "Firefox OS", "Firefox"),
        ),
        (
            "Mozilla/5.0 (Mobile; Nokia_8110_4G; rv:48.0) Gecko/48.0 Firefox/48.0 KAIOS/2.5",
            ("Firefox", "mobile", "KaiOS", "2.5", "Firefox", "48.0", "Other", "Firefox"),
        ),
        (
            f"Mozilla/5.0 (X11; Linux x86_64) {WEBKIT} Chrome/126.0.0.0 Safari/537.36",
            ("Chrome", "desktop", "Linux", "", "Chrome", "126.0.0.0", "Linux", "Chrome"),
        ),
        (
            f"Mozilla/5.0 (Linux; Android 10; K) {WEBKIT} Chrome/126.0.0.0 Mobile Safari/537.36",
            ("Chrome", "mobile", "Android", "10", "Chrome", "126.0.0.0", "Linux", "Chrome"),
        ),
        (
            f"{MAC} {APPLE} Version/17.4.1 Safari/605.1.15",
            ("Safari", "desktop", "Mac OS X", "10.15.7", "Safari", "17.4.1", "Mac OS X", "Safari"),
        ),
        (
            f"{IPHONE} Version/17.5 Mobile/15E148 Safari/604.1",
            ("Safari", "mobile", "iOS", "17.5", "Safari", "17.5", "Other", "Safari"),
        ),
        (
            f"{IPHONE} FxiOS/127.0 Mobile/15E148 Safari/605.1.15",
            ("Firefox", "mobile", "iOS", "17.5", "Firefox", "127.0", "Other", "Firefox"),
        ),
        (
            f"Mozilla/5.0 (Windows NT 6.1) {WEBKIT} Chrome/95.0.0.0 Safari/537.36 OPR/81.0.4196.60",
            ("Opera", "desktop", "Windows", "7", "Opera", "81.0.4196.60", "Windows", "Opera"),
        ),
        (
            f"Mozilla/5.0 (Windows NT 10.0) {WEBKIT} Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0",
            ("Edge", "desktop", "Windows", "10", "Edge", "126.0.0.0", "Windows", "Other"),
        ),
        (
            f"Mozilla/5.0 (X11; CrOS x86_64 14541.0) {WEBKIT} Chrome/126.0.0.0 Safari/537.36",
            ("Chrome", "desktop", "Chrome OS", "14541.0", "Chrome", "126.0.0.0", "Other", "Chrome"),
        ),
        (
            f"{LUMIA} {WEBKIT} Chrome/52.0.2743.116 Mobile Safari/537.36 Edge/15.15254",
            ("Edge", "mobile", "Windows Phone", "10.0", "Edge", "15.15254", "Windows", "Other"),
        ),
        ("okhttp/4.12.0", ("okhttp", "other", "Other", "", "Other", "4.12.0", "Other", "Other")),
        (
            "Sunup/1.0 (Android 14)",
            ("Sunup", "mobile", "Android", "14", "Other", "1.0", "Other", "Other"),
        ),
        (
            "Python/3.11 websockets/15.0.1",
            ("Python", "other", "Other", "", "Other", "3.11", "Other", "Other"),
        ),
        ("", UserAgentNames()),
        ("?!", UserAgentNames()),
    ],
)
def test_names_of_user_agents(header: str, names: tuple[str, ...]) -> None:
    assert parse_user_agent(header) == names


@given(
    st.text()
    | st.lists(
        st.sampled_from(["Mozilla/5.0 (", "Android", "Windows NT", " OS ", "/", "9" * 99, ")", "x"])
    ).map("".join)
)
def test_whatever_is_sent_metrics_get_known_families_and_logs_short_words(header: str) -> None:
    names = parse_user_agent(header)
    assert names.metric_os in OS_FAMILIES
    assert names.metric_browser in BROWSER_FAMILIES
    assert names.category in ("desktop", "mobile", "other")
    assert max(map(len, (names.os_version, names.browser_version))) <= MAX_VERSION
    assert len(names.name) <= 32
    assert all(name.isprintable() for name in names)


def test_a_long_header_costs_little_to_read() -> None:
    assert parse_user_agent("A" * 16_000).name == "A" * 32
    assert parse_user_agent("(iPhone" * 5_000).os_family == "iOS"


def test_the_same_header_gives_the_same_object_and_how_many_are_kept_is_bounded() -> None:
    header = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
    assert parse_user_agent(header) is parse_user_agent(header)
    names = parse_user_agent(header)
    for number in range(CACHED_HEADERS):
        parse_user_agent(f"okhttp/{number}")
    assert parse_user_agent(header) is not names
    assert parse_user_agent(header) == names


def test_what_is_beyond_the_limit_of_a_header_is_not_kept() -> None:
    assert parse_user_agent("x" * MAX_HEADER) is parse_user_agent("x" * (MAX_HEADER + 1))
