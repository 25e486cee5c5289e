"""The page of errors: made from the table, and without anything from elsewhere."""

import ast
import inspect
import re
from html import escape

import pytest

from autopush.api.pages import Pages
from autopush.api.responses import NOT_HTTP_ANCHOR
from autopush.net.http_messages import Request, Response
from autopush.protocol import messages, session
from autopush.version import VERSION
from autopush.webpush.errors import ERRORS, ErrorKind, reason_phrase
from support.connection_harness import Harness
from support.endpoint_harness import Endpoint, headers_of
from support.html_tags import Tags

PAGES = Pages(endpoint_url="https://push.example", websocket_url="wss://push.example/")


def errors_page() -> Response:
    page = PAGES.respond(Request("GET", "/errors", "", {}, "::1"))
    assert page is not None
    return page


def text_of_page() -> str:
    return errors_page().body.decode()


@pytest.mark.parametrize("kind", ERRORS.values(), ids=lambda kind: f"{kind.errno:d}")
def test_every_error_has_a_section_under_its_anchor_and_a_row_that_leads_to_it(
    kind: ErrorKind,
) -> None:
    text = text_of_page()
    section = text.partition(f'<section class="card error" id="{kind.anchor}"')[2]
    section = section.partition("</section>")[0]
    assert f">{kind.errno:d}: {escape(kind.title)}</h2>" in section
    assert f"HTTP status {kind.status} {escape(reason_phrase(kind.status))}" in section
    assert escape(kind.help) in section
    assert text.count(f'<td><a href="#{kind.anchor}">{kind.errno:d}</a></td>') == 1


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


def test_ids_are_unique_and_every_reference_has_its_target() -> None:
    tags = Tags(text_of_page())
    ids = tags.values("id")
    assert len(ids) == len(set(ids))
    named = [name[1:] for name in tags.values("href") if name.startswith("#")]
    for name in (*named, *tags.values("aria-labelledby")):
        assert name in ids, name


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
        assert PAGES.respond(Request("GET", path, "", {}, "::1")) is not None, name
    assert not [name for tag, attributes in tags.tags for name in attributes if name[:2] == "on"]
    assert {"script", "style"}.isdisjoint(tag for tag, _ in tags.tags)


def test_its_policy_allows_no_script_and_nothing_from_elsewhere() -> None:
    policy = dict(errors_page().headers)["Content-Security-Policy"]
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    assert set(parts.values()) == {"'none'", "'self'"}
    assert "script-src" not in parts


async def answer(harness: Harness, method: str) -> Response:
    return await Endpoint(harness).ask(method, "/errors")


async def test_the_endpoint_serves_it_to_get_and_head(harness: Harness) -> None:
    response = await answer(harness, "GET")
    assert (response.status, response.body) == (200, errors_page().body)
    assert headers_of(response)["content-type"] == "text/html; charset=utf-8"
    assert (await answer(harness, "HEAD")).status == 200
    assert (await answer(harness, "POST")).status == 404
