"""Names for logs and metrics from a User-Agent header.

The tables cover user agents that have push and other common ones; libraries are many times larger.

Rule: metrics take only `OS_FAMILIES` and `BROWSER_FAMILIES`; all other families go only to logs.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

OTHER_FAMILY: Final = "Other"
OS_FAMILIES: Final = ("Windows", "Firefox OS", "Linux", "Mac OS X", OTHER_FAMILY)
"""As in the original: Android is Linux if the header says so, which Firefox's does not."""
BROWSER_FAMILIES: Final = ("Chrome", "Firefox", "Safari", "Opera", OTHER_FAMILY)

MAX_HEADER: Final = 512
"""Characters of a header that are read; browsers send fewer."""
MAX_VERSION: Final = 24
CACHED_HEADERS: Final = 2048

_VERSION: Final = r"[/ :]?(\d[\w.]*)?"

_SYSTEMS: Final = [
    (re.compile(pattern), family)
    for pattern, family in (
        # Order matters: Windows Phone names Android and iPhone too, others name their ancestors.
        (r"Windows Phone(?: OS)?" + _VERSION, "Windows Phone"),
        (r"Windows NT" + _VERSION, "Windows"),
        (r"Windows" + _VERSION, "Windows"),
        (r"KAIOS" + _VERSION, "KaiOS"),
        (r"(?:iPhone|iPad|iPod)[^)]*? OS (\d[\w.]*)", "iOS"),
        (r"(?:iPhone|iPad|iPod)()", "iOS"),
        (r"Mac OS X" + _VERSION, "Mac OS X"),
        (r"Android" + _VERSION, "Android"),
        (r"CrOS \S+" + _VERSION, "Chrome OS"),
        (r"(?:Linux|X11; U(?:buntu)?;)()", "Linux"),
        (r"FreeBSD()", "FreeBSD"),
        (r"OpenBSD()", "OpenBSD"),
        (r"^Mozilla/[\d.]+ \((?:Mobile|Tablet);()", "Firefox OS"),
    )
]
"""The first match wins."""

_WINDOWS: Final = {"10.0": "10", "6.3": "8.1", "6.2": "8", "6.1": "7", "6.0": "Vista"}
"""Windows NT version → name; Windows 11 reports 10.0."""

_BROWSERS: Final = [
    (re.compile(pattern), family)
    for pattern, family in (
        (r"(?:Edge|Edg|EdgA|EdgiOS)/([\d.]+)", "Edge"),
        (r"(?:OPR|OPiOS|OPX|Opera)/([\d.]+)", "Opera"),
        (r"SamsungBrowser/([\d.]+)", "Samsung Internet"),
        (r"Vivaldi/([\d.]+)", "Vivaldi"),
        (r"YaBrowser/([\d.]+)", "Yandex Browser"),
        (r"SeaMonkey/([\d.]+)", "SeaMonkey"),
        (r"PaleMoon/([\d.]+)", "Pale Moon"),
        (r"(?:Firefox|FxiOS)/([\d.]+)", "Firefox"),
        (r"Chromium/([\d.]+)", "Chromium"),
        (r"(?:Chrome|CriOS|HeadlessChrome)/([\d.]+)", "Chrome"),
        (r"Android.* Version/([\d.]+)", "Android Browser"),
        (r"Version/([\d.]+).* Safari/", "Safari"),
        (r"Safari/()", "Safari"),
    )
]
"""The first match wins."""

_FIRST_PRODUCT: Final = re.compile(r"([A-Za-z][\w.+-]{0,31})(?:/([\w.+-]+))?")

_MOBILE: Final = re.compile(r"Mobile|Tablet|Android|iPhone|iPad|iPod|KAIOS|Windows Phone")
_DESKTOP: Final = frozenset({"Windows", "Mac OS X", "Linux", "Chrome OS", "FreeBSD", "OpenBSD"})


class UserAgentNames(NamedTuple):
    """`name`: the browser, or the first product of another program's header, such as a UnifiedPush
    distributor. `category`: desktop, mobile or other. Unknown versions are empty.
    """

    name: str = OTHER_FAMILY
    category: str = "other"
    os_family: str = OTHER_FAMILY
    os_version: str = ""
    browser_family: str = OTHER_FAMILY
    browser_version: str = ""
    metric_os: str = OTHER_FAMILY
    metric_browser: str = OTHER_FAMILY


def parse_user_agent(header: str) -> UserAgentNames:
    """`header` is empty if there was none."""
    return _parse(header[:MAX_HEADER])


@lru_cache(CACHED_HEADERS)
def _parse(header: str) -> UserAgentNames:
    os_family, os_version = _first(_SYSTEMS, header)
    browser_family, browser_version = _first(_BROWSERS, header)
    if os_family == "Windows":
        os_version = _WINDOWS.get(os_version, os_version)
    name = browser_family
    if browser_family == OTHER_FAMILY and (product := _FIRST_PRODUCT.match(header)) is not None:
        name, browser_version = product[1], (product[2] or "")[:MAX_VERSION]
    metric_os = "Windows" if os_family.startswith("Windows") else os_family
    if metric_os not in OS_FAMILIES:
        metric_os = "Linux" if "Linux" in header else OTHER_FAMILY
    is_browser = browser_family in BROWSER_FAMILIES
    return UserAgentNames(
        name,
        _category(header, os_family),
        os_family,
        os_version,
        browser_family,
        browser_version,
        metric_os,
        browser_family if is_browser else OTHER_FAMILY,
    )


def _first(table: list[tuple[re.Pattern[str], str]], header: str) -> tuple[str, str]:
    for pattern, family in table:
        match = pattern.search(header)
        if match is not None:
            return family, (match[1] or "").replace("_", ".")[:MAX_VERSION]
    return OTHER_FAMILY, ""


def _category(header: str, os_family: str) -> str:
    if os_family == "Firefox OS" or _MOBILE.search(header):
        return "mobile"
    return "desktop" if os_family in _DESKTOP else "other"
