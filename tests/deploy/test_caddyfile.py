"""deploy/Caddyfile, by rules: Caddy itself is not part of the tests."""

import pytest

from support.caddyfile import Block, parse
from support.paths import ROOT

TEXT = (ROOT / "deploy" / "Caddyfile").read_text("utf-8")


@pytest.fixture
def site() -> Block:
    [(names, directives)] = parse(TEXT)
    assert names == ["{$PUSH_HOST:push.example.org}"]
    return directives


def test_upgrades_go_to_the_web_socket_port_and_all_else_to_the_endpoint(site: Block) -> None:
    [matcher] = [words for words, _ in site if words[0] == "@websocket"]
    assert matcher == ["@websocket", "header_regexp", "Upgrade", "(?i)^websocket$"]
    handlers = {" ".join(words): block for words, block in site if words[0] == "handle"}
    assert list(handlers) == ["handle @websocket", "handle"]
    upstreams = [
        words for block in handlers.values() for words, _ in block if words[0] == "reverse_proxy"
    ]
    assert upstreams == [
        ["reverse_proxy", "{$UPSTREAM:127.0.0.1}:8080"],
        ["reverse_proxy", "{$UPSTREAM:127.0.0.1}:8082"],
    ]


def test_bodies_are_limited_and_nothing_is_logged(site: Block) -> None:
    [body] = [block for words, block in site if words == ["request_body"]]
    assert body == [(["max_size", "64KB"], [])]
    assert not [words for words, _ in site if words[0] == "log"]  # paths are secrets


@pytest.mark.parametrize("text", ["a {\n", "}\n", "a {\n}\n}\n"])
def test_a_brace_without_its_other_one_is_found(text: str) -> None:
    with pytest.raises(AssertionError, match="brace"):
        parse(text)


def test_it_is_indented_as_caddy_fmt_does() -> None:
    depth = 0
    for line in TEXT.splitlines():
        if not line:
            continue
        depth -= line.strip() == "}"
        assert line == "\t" * depth + line.strip(), line
        depth += line.endswith("{")
