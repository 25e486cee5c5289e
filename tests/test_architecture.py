"""The shape of the source: layers, no import circles, each class name once in a package, and whole
lists of modules.
"""

import ast
import logging.config
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import grimp
import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from support.paths import PACKAGES

PACKAGE_NAMES = ("keytables", "autopush", "channelstats", "pytest_autopush")


@cache
def sources() -> Mapping[str, Path]:
    """The file of every module of the packages, by the module's dotted name."""
    found = {}
    for folder in sorted(PACKAGES.glob("*/src")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def text(name: str) -> str:
    """The source of a module. All are searched as text: to parse them would take seconds."""
    return sources()[name].read_text("utf-8")


def test_imports_point_down_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    # It sets up logging for its own command, which would disable all other loggers for good.
    monkeypatch.setattr(logging.config, "dictConfig", lambda _: None)
    assert lint_imports(config_filename="pyproject.toml") == EXIT_STATUS_SUCCESS


def test_no_module_imports_itself_over_others() -> None:
    # What a package gathers for its users is no dependency of the modules that it gathers.
    imports = grimp.build_graph(*PACKAGE_NAMES, cache_dir=None)
    assert imports.modules == sources().keys()
    graph = {
        name: imports.find_modules_directly_imported_by(name)
        for name, path in sources().items()
        if path.stem != "__init__"
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("imports in a circle: " + " → ".join(error.args[1]))


def test_a_class_name_occurs_once_in_a_package() -> None:
    places = defaultdict(list)
    for module in sources():
        package = module.partition(".")[0]
        for name in re.findall(r"^class ([^\W_]\w*)", text(module), re.MULTILINE):
            places[package, name].append(module)
    assert {name: names for (_, name), names in places.items() if len(names) > 1} == {}


def test_a_package_that_lists_its_modules_lists_all_of_them() -> None:
    children = defaultdict(set)
    for name in sources():
        package, _, child = name.rpartition(".")
        if package and not child.startswith("_"):
            children[package].add(child)
    missing = {}
    for package, found in children.items():
        words = set(re.findall(r"\w+", ast.get_docstring(ast.parse(text(package))) or ""))
        if len(found & words) > len(found) / 2 and found - words:
            missing[package] = sorted(found - words)
    assert missing == {}


# ── one mechanism for one need ────────────────────────────────────────────────────────────────────


IMPORTED = re.compile(r"^ *from (\S+) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)


def signs_in(source: str) -> Iterator[str]:
    """What gives a mechanism away: imports, and the names of functions, classes and attributes."""
    for module, lines, line in IMPORTED.findall(source):
        yield from (f"import {module}.{name}" for name in re.findall(r"\w+", lines or line))
    yield from re.findall(r"^ *(import \S+|(?:class|def) \w+)", source, re.MULTILINE)
    yield from re.findall(r"^ *async (def \w+)", source, re.MULTILINE)
    yield from re.findall(r"[\w)\]](\.\w+)\(", source)


class Mechanism(NamedTuple):
    """What serves a need. `sign`: a pattern of what only such a mechanism has; `modules`: those
    that have it, each beside the first with what makes it something else.
    """

    sign: str
    modules: Mapping[str, str]


HTTP_MODULES = r"(http\.client|urllib\.request|httpx|requests|aiohttp\.Client\w+)(\..*)?"
MECHANISMS = {
    "lease": Mechanism(r"class _?Lease", {"keytables.lease": ""}),
    "growing pause between attempts": Mechanism(
        r"class _?\w*(Backoff|RetryPolicy|Retries)",
        {"keytables.retries": "", "keytables.dynamodb.retries": "which answers are tried again"},
    ),
    "circuit breaker": Mechanism(
        r"class _?\w*(Circuit|Breaker)\w*",
        {"keytables.retries": "", "autopush.delivery.bridged": "what it guards, by application"},
    ),
    "bounded map": Mechanism(
        r"import collections\.OrderedDict|\.popitem|\.move_to_end|class \w*(RecentlyUsed|Bounded)",
        {
            "autopush.recently_used": "",
            "autopush.fair_queue": "a queue: the next key to serve comes first",
            "autopush.net.client_limits": "by weight: who has held bytes for longest gives them up",
            "autopush.net.http_server": "connections by idle time",
            "autopush.net.listener": "handshakes by age",
            "channelstats.web.auth": "wrong tokens by address",
            "channelstats.web.service": "views, made once for all who wait",
        },
    ),
    "outbound HTTP client": Mechanism(
        rf"import {HTTP_MODULES}|\.ClientSession|\.open_connection|\.create_connection",
        {
            "autopush.net.http_client": "",
            "autopush.acme.directory": "acme brings requests",
            "autopush.net.tcp": "connections of HTTP/2, whose requests cost less, and of nodes",
            "autopush.testing.client": "blocking, in the thread of a test",
            "autopush.testing.user_agents": "a WebSocket, as a user agent's",
            "channelstats.slack.client": "slack_sdk brings aiohttp",
            "channelstats.sending.web_push": "the same aiohttp",
            "keytables.dynamodb.connections": "the base layer knows no service; DynamoDB alone",
        },
    ),
    "pool of connections": Mechanism(
        r"class (_?\w*Pool|Http2Client)",
        {
            "keytables.dynamodb.connections": "",
            "autopush.net.http2_client": "many requests on a connection, as its server allows",
            "keytables.postgresql.connections": "connections with a state: transactions, locks",
        },
    ),
    "rate limiter": Mechanism(
        r"class _?\w*(TokenBucket|RateLimiter|RepeatLimiter)\w*",
        {
            "autopush.limits": "",
            "autopush.jobs": "paces what may wait, and slows down with the store",
            "autopush.telemetry.logs": "counts what it leaves out, for the next line",
        },
    ),
    "list of checks": Mechanism(
        r"class _?Check",
        {"autopush.commands.checks": "", "autopush.store.preflight": "one call to the database"},
    ),
    "runner of background jobs": Mechanism(
        r"def (repeat|run_forever|run_every)|class _?\w*(BackgroundJob|Periodic)\w*",
        {"autopush.jobs": ""},
    ),
    "progress bar": Mechanism(
        r"import tqdm(\..*)?",
        {
            "channelstats.progress": "",
            "channelstats.commands.context": "writes lines beside it",
            "autopush.commands.running": "the other service, which must not import the first",
        },
    ),
    "reader of settings files": Mechanism(
        r"import (tomllib|configparser)(\..*)?",
        {
            "autopush.settings.files": "",
            "channelstats.settings.sources": "the other service",
            "channelstats.ingest.questions": "reads its words, which nobody sets",
        },
    ),
}


# One test for all needs: the processes that share the tests would each parse the whole source.
def test_a_need_is_served_by_one_mechanism() -> None:
    signs = {name: frozenset(signs_in(text(name))) for name in sources()}
    for need, mechanism in MECHANISMS.items():
        sign = re.compile(mechanism.sign)
        found = {name for name, given in signs.items() if any(map(sign.fullmatch, given))}
        known = mechanism.modules.keys()
        second = f"a second {need}: use the first, or say here what it is instead"
        assert found - known == set(), second
        assert known - found == set(), f"no {need} any more"
