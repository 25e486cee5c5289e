"""The pages for people: the start page, its files, and the page of errors."""

import ast
import inspect
import re
from html import escape
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from autopush.api.pages import Pages
from autopush.api.responses import NOT_HTTP_ANCHOR
from autopush.net.http_messages import Request, Response
from autopush.protocol import messages, session
from autopush.version import VERSION
from autopush.webpush.errors import ERRORS, Errno, reason_phrase
from support.cases import cases
from support.connection_harness import Harness
from support.endpoint_harness import Endpoint, headers_of

# ── The start page ────────────────────────────────────────────────────────────────────────────────


ENDPOINT = "http://127.0.0.1:8080"
WEBSOCKET = "ws://127.0.0.1:8080/"
STATIC = {file.name: file.read_bytes() for file in (files("autopush.api") / "static").iterdir()}
SCRIPTS = sorted(name for name in STATIC if name.endswith(".js"))


class Tags(HTMLParser):
    """The start tags of a document with their attributes, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def values(self, name: str) -> list[str]:
        """The values of an attribute, wherever it occurs."""
        return [attributes[name] for _, attributes in self.tags if name in attributes]


def start_page(endpoint: str = ENDPOINT, websocket: str = WEBSOCKET) -> Pages:
    return Pages(endpoint_url=endpoint, websocket_url=websocket)


def ask(page: Pages, path: str = "/", method: str = "GET") -> Response | None:
    return page.respond(Request(method, path, "", {}, "127.0.0.1"))


def text_of(page: Pages, path: str = "/") -> str:
    response = ask(page, path)
    assert response is not None, path
    return response.body.decode()


def directives(page: Pages, path: str = "/") -> dict[str, list[str]]:
    response = ask(page, path)
    assert response is not None
    policy = dict(response.headers)["Content-Security-Policy"]
    return {words[0]: words[1:] for words in (part.split() for part in policy.split(";"))}


def test_the_addresses_and_the_version_stand_in_the_page_without_any_script() -> None:
    text = text_of(start_page())
    assert text.count(f">{WEBSOCKET}</code>") >= 2
    assert f">{ENDPOINT}</code>" in text
    assert f"version {VERSION}" in text
    assert "{{" not in text


def test_where_accounts_are_required_the_page_asks_for_the_token() -> None:
    def shown(accounts_required: bool) -> list[str]:
        page = Pages(
            endpoint_url=ENDPOINT, websocket_url=WEBSOCKET, accounts_required=accounts_required
        )
        text = text_of(page)
        state = "required" if accounts_required else "none"
        assert f'data-accounts="{state}"' in text
        paragraphs = re.findall(r"<p ([^>]*)>([^<]*token[^<]*)", text)
        assert len(paragraphs) == 2
        return [words for attributes, words in paragraphs if "hidden" not in attributes]

    assert shown(False) == []
    assert len(shown(True)) == 2


def test_an_address_cannot_become_markup() -> None:
    text = text_of(start_page(websocket='wss://push.example/"><script>alert(1)</script>'))
    assert "<script>alert" not in text
    assert "wss://push.example/&quot;&gt;&lt;script&gt;" in text


def test_an_invalid_endpoint_url_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="absolute URL"):
        start_page(endpoint="push.example")


@pytest.mark.parametrize(
    ("endpoint", "origin"),
    [
        (ENDPOINT, ENDPOINT),
        ("https://push.example:443", "https://push.example"),
        ("https://push.example/some/path", "https://push.example"),
    ],
)
def test_the_policy_lets_the_page_reach_itself_and_its_endpoints_only(
    endpoint: str, origin: str
) -> None:
    policy = directives(start_page(endpoint=endpoint))
    assert policy.pop("connect-src") == ["'self'", origin]
    assert {source for sources in policy.values() for source in sources} == {"'self'", "'none'"}
    assert policy["default-src"] == ["'none'"]


def test_every_file_carries_the_policy_and_is_not_sniffed() -> None:
    page = start_page()
    for path in [
        "/",
        "/service-worker.js",
        *(f"/start/{name}" for name in ("demo.js", "icon.svg")),
    ]:
        response = ask(page, path)
        assert response is not None
        headers = dict(response.headers)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-cache"


def test_every_static_file_is_served_with_its_type() -> None:
    page = start_page()
    types = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg"}
    for name in STATIC:
        at_root = {
            "index.html": "/",
            "errors.html": "/errors",
            "service-worker.js": "/service-worker.js",
        }
        path = at_root.get(name, f"/start/{name}")
        response = ask(page, path)
        assert response is not None, f"{name} is not served"
        assert (response.content_type or "").startswith(types[name.rpartition(".")[2]])


@cases(
    ("method", "path"),
    [
        ("GET", "/start/"),
        ("GET", "/start/index.html"),
        ("GET", "/start/../start_page.py"),
        ("GET", "/elsewhere"),
        ("POST", "/"),
        ("PUT", "/start/demo.js"),
    ],
)
def test_anything_but_a_get_of_a_file_has_no_response(method: str, path: str) -> None:
    assert ask(start_page(), path, method) is None


def test_headers_added_to_one_response_do_not_change_the_next() -> None:
    page = start_page()
    first = ask(page)
    assert first is not None
    first.headers = (*first.headers, ("Set-Cookie", "x"))
    second = ask(page)
    assert second is not None
    assert "Set-Cookie" not in dict(second.headers)


def test_what_the_page_and_its_scripts_name_is_served() -> None:
    page = start_page()
    tags = Tags(text_of(page))
    named = [name for name in tags.values("src") + tags.values("href") if name[0] != "#"]
    for script in SCRIPTS:
        source = STATIC[script].decode()
        named += [f"/start/{name}" for name in re.findall(r'from "\./([^"]+)"', source)]
        named += re.findall(r'"(/[a-z/-]+\.(?:js|svg))"', source)
    for path in set(named) - {"/health"}:
        assert ask(page, path) is not None, path


def test_nothing_is_loaded_from_elsewhere() -> None:
    tags = Tags(STATIC["index.html"].decode())
    for name in tags.values("src") + tags.values("href"):
        assert re.match(r"/(?!/)|#", name), name
    for name, body in STATIC.items():
        source = body.decode()
        assert not re.search(r"@import|\burl\(", source), name
        assert not re.search(r"""(?:from|import|fetch|importScripts)[ (]+["'`]\w+:""", source), name


def test_neither_script_nor_style_is_inline() -> None:
    source = STATIC["index.html"].decode()
    for tag, attributes in Tags(source).tags:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
    for script in SCRIPTS:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|eval\(", STATIC[script].decode()
        )


@pytest.mark.parametrize("path", ["/", "/errors"])
def test_ids_are_unique_and_every_reference_has_its_target(path: str) -> None:
    tags = Tags(text_of(start_page(), path))
    ids = tags.values("id")
    assert len(ids) == len(set(ids))
    targets = [
        name[1:] for name in tags.values("href") + tags.values("data-copy") if name[0] == "#"
    ]
    for name in (*targets, *tags.values("for"), *tags.values("aria-labelledby")):
        assert name in ids, name
    for script in SCRIPTS if path == "/" else ():
        for name in re.findall(r'(?:querySelector|Step)\("#([a-z-]+)"', STATIC[script].decode()):
            assert name in ids, f"{script}: #{name}"


def test_every_control_has_a_label_of_its_own() -> None:
    tags = Tags(STATIC["index.html"].decode())
    labelled = tags.values("for")
    for tag, attributes in tags.tags:
        if tag in ("textarea", "select", "input"):
            assert attributes["id"] in labelled
    copies = [attributes for tag, attributes in tags.tags if attributes.get("class") == "copy"]
    labels = [attributes["aria-label"] for attributes in copies]
    assert len(labels) == len(set(labels)) > 0


def test_the_settings_of_firefox_are_named_and_can_be_copied() -> None:
    text = text_of(start_page())
    for words in ("about:config", "dom.push.serverURL", "dom.push.testing.allowInsecureServerURL"):
        found = re.search(rf'<code id="([a-z-]+)">{re.escape(words)}</code>', text)
        assert found, words
        assert f'data-copy="#{found[1]}"' in text


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@cases("scheme", ["light", "dark"])
@cases(
    ("front", "ground", "least"),
    [
        ("text", "ground", 4.5),
        ("text", "card", 4.5),
        ("text", "code", 4.5),
        ("text", "bad-ground", 4.5),
        ("quiet", "ground", 4.5),
        ("quiet", "card", 4.5),
        ("quiet", "code", 4.5),
        ("accent", "ground", 4.5),
        ("accent", "card", 4.5),
        ("accent", "code", 4.5),
        ("on-accent", "accent", 4.5),
        ("on-accent", "accent-hover", 4.5),
        ("good", "card", 4.5),
        ("good", "ground", 4.5),
        ("good", "good-ground", 4.5),
        ("bad", "bad-ground", 4.5),
        ("bad", "ground", 4.5),
        ("field", "card", 3.0),
        ("field", "ground", 3.0),
    ],
)
def test_contrast_reaches_aa(scheme: str, front: str, ground: str, least: float) -> None:
    light, dark = re.findall(r":root \{(.*?)\}", STATIC["style.css"].decode(), re.DOTALL)
    colours = dict(
        re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark)
    )
    assert contrast(colours[front], colours[ground]) >= least


# ── The page of errors ────────────────────────────────────────────────────────────────────────────


def text_of_page() -> str:
    return text_of(start_page(), "/errors")


@cases("kind", ERRORS.values())
def test_every_error_has_a_section_under_its_anchor_and_a_row_that_leads_to_it(kind: Errno) -> None:
    text = text_of_page()
    section = text.partition(f'<section class="card error" id="{kind.anchor}"')[2]
    section = section.partition("</section>")[0]
    assert f">{kind:d}: {escape(kind.title)}</h2>" in section
    assert f"HTTP status {kind.status} {escape(reason_phrase(kind.status))}" in section
    assert escape(kind.help) in section
    assert text.count(f'<td><a href="#{kind.anchor}">{kind:d}</a></td>') == 1


@pytest.mark.parametrize("anchor", [NOT_HTTP_ANCHOR, messages.WEBSOCKET_ANCHOR])
def test_refusals_without_a_number_have_a_section_too(anchor: str) -> None:
    assert Tags(text_of_page()).values("id").count(anchor) == 1


def refusal_reasons() -> set[str]:
    """The texts that the session refuses with: constants of the messages, and its own."""
    reasons = {messages.BAD_UUID_FORMAT, messages.INVALID_UUID, messages.MISSING_CHANNEL}
    reasons.add("duplicate hello")
    for call in ast.walk(ast.parse(inspect.getsource(session))):
        match call:
            case ast.Call(
                ast.Attribute(attr="_refuse" | "_refuse_hello"), [*_, ast.Constant(text)]
            ):
                reasons.add(str(text))
    return reasons


def test_every_reason_for_a_refusal_on_the_websocket_is_explained() -> None:
    found = refusal_reasons()
    assert {"too many channels", "Missing ChannelID"} <= found
    rows = text_of_page().partition(f'id="{messages.WEBSOCKET_ANCHOR}"')[2]
    for reason in found:
        assert reason in rows


def test_the_page_is_whole_and_names_its_version() -> None:
    text = text_of_page()
    assert f"version {VERSION}" in text
    assert "{{" not in text
    assert "<!-- " not in text


def test_it_loads_only_what_the_start_page_serves_also_below_a_path() -> None:
    tags = Tags(text_of_page())
    named = [name for name in tags.values("src") + tags.values("href") if name[0] != "#"]
    assert named
    for name in named:
        # Relative, so that they are found behind a proxy that adds a path.
        assert re.match(r"(?!/)(?!\w+:)", name), name
        path = "/" + name.removeprefix("./")
        assert ask(start_page(), path) is not None, name
    assert not [name for tag, attributes in tags.tags for name in attributes if name[:2] == "on"]
    assert {"script", "style"}.isdisjoint(tag for tag, _ in tags.tags)


def test_its_policy_allows_no_script_and_nothing_from_elsewhere() -> None:
    policy = directives(start_page(), "/errors")
    assert policy["default-src"] == ["'none'"]
    assert {source for sources in policy.values() for source in sources} == {"'self'", "'none'"}
    assert "script-src" not in policy


async def answer(harness: Harness, method: str) -> Response:
    return await Endpoint(harness).ask(method, "/errors")


async def test_the_endpoint_serves_it_to_get_and_head(harness: Harness) -> None:
    response = await answer(harness, "GET")
    assert (response.status, response.body.decode()) == (200, text_of_page())
    assert headers_of(response)["content-type"] == "text/html; charset=utf-8"
    assert (await answer(harness, "HEAD")).status == 200
    assert (await answer(harness, "POST")).status == 404
