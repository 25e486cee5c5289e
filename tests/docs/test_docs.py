"""The documentation and the code agree.

Most of it is generated. These tests check the rest: what is generated has a place in a page, and
what people wrote names things that exist.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain

import yaml
from bench import report
from bench.measures import MEASURES
from docs._ext import pages

from autopush.commands import COMMANDS
from autopush.net.frames import CloseCode
from autopush.protocol import effects
from autopush.protocol import messages as client_messages
from autopush.settings import OPTIONS
from autopush.settings.reference import option_anchor
from autopush.webpush.errors import ERRORS, Errno
from support.cases import cases
from support.paths import PACKAGES, ROOT

DOCS = ROOT / "docs"
SOURCES = {
    path.relative_to(DOCS).with_suffix("").as_posix(): path.read_text("utf-8")
    for path in DOCS.rglob("*.md")
}
OPENAPI = yaml.load((DOCS / "openapi.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)
README = (ROOT / "README.md").read_text("utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
NAMES = [*SOURCES, "README", "CHANGELOG"]


@cache
def filled() -> dict[str, str]:
    """The pages with what is made from the code, which takes a second."""
    return {page: pages.fill(text) for page, text in SOURCES.items()}


def everything() -> dict[str, str]:
    return {**filled(), "README": README, "CHANGELOG": CHANGELOG}


# The pages cover the code


@cases("kind", ERRORS.values())
def test_every_error_number_has_one_anchor_and_its_help(kind: Errno) -> None:
    whole = "\n".join(filled().values())
    assert whole.count(f"({kind.anchor})=\n") == 1
    section = filled()["errors"].partition(f"({kind.anchor})=\n")[2].partition("\n(errno-")[0]
    assert kind.help in section
    assert str(kind.status) in section


@cases(
    "command",
    [*(f"autopush {c.name}" for c in COMMANDS), "autoendpoint", "autokey", "endpoint_diagnostic"],
)
def test_every_command_is_in_the_operations_page(command: str) -> None:
    assert f"| `{command}` |" in filled()["operations"]


@cases("kind", client_messages.EVENTS)
def test_every_message_a_user_agent_may_send_has_a_section(kind: str) -> None:
    assert f"\n## {kind}\n" in filled()["protocol"]


def test_every_close_code_the_session_uses_is_documented() -> None:
    used = {value for value in vars(effects).values() if type(value) is int and value >= 1000}
    assert used, "the effects name the close codes as module constants"
    table = filled()["protocol"].partition("## Close codes")[2]
    for code in used | set(CloseCode) - {CloseCode.NO_STATUS}:
        assert f"| {int(code)} |" in table


def routes() -> Iterator[str]:
    """The paths of the endpoint: the cases over method and path, each up to its first variable."""
    modules = (
        PACKAGES / f"autopush/src/autopush/{name}.py" for name in ("api/app", "api/status_pages")
    )
    trees = (ast.parse(module.read_text("utf-8")) for module in modules)
    for case in chain.from_iterable(map(ast.walk, trees)):
        if isinstance(case, ast.MatchSequence):
            path = ""
            for part in case.patterns[1:]:
                if not isinstance(part, ast.MatchValue):
                    break
                path += f"/{ast.literal_eval(part.value)}"
            if path:
                yield path


@cases("route", sorted(set(routes())))
def test_every_route_of_the_endpoint_is_documented(route: str) -> None:
    assert re.search(rf"[` ]{re.escape(route)}[`/]", filled()["http-api"]), route
    assert any(f"{path}/".startswith(f"{route}/") for path in OPENAPI["paths"]), route


@cases("measure", MEASURES)
def test_every_measure_of_the_benchmarks_is_explained(measure: str) -> None:
    assert f"`{measure}`" in filled()["benchmarks"]


@cases("column", [name for name in report.COLUMNS[1:] if name])
def test_every_column_of_the_benchmarks_is_explained(column: str) -> None:
    assert f"| {column} |" in filled()["benchmarks"]


@cases("page", NAMES)
def test_files_that_pages_name_exist(page: str) -> None:
    for path in re.findall(
        r"(?<![\w/])(?:packages|tests|bench|docs|deploy)/[\w/.-]+\w", everything()[page]
    ):
        assert (ROOT / path).exists() or path.startswith("docs/_build"), path


# The pages name things that exist


def test_every_part_made_from_the_code_has_a_place_in_a_page() -> None:
    used = {
        found["name"] for text in SOURCES.values() for found in pages.PLACEHOLDER.finditer(text)
    }
    assert used == set(pages.PARTS)


@cases("page", NAMES)
def test_options_that_pages_link_to_exist(page: str) -> None:
    named = re.findall(r"\]\(#(option-[\w-]+)\)", everything()[page])
    assert set(named) <= {option_anchor(option.name) for option in OPTIONS}


NO_OPTIONS = {"AUTOPUSH_SOAK", "AUTOPUSH_ALLOW_ROBOTS"}
"""A variable of the tests, and that of the worked example."""


@cases("page", NAMES)
def test_variables_that_pages_name_exist(page: str) -> None:
    named = re.findall(r"\bAUTOPUSH_[A-Z_]*[A-Z]\b", everything()[page])
    known = {name for option in OPTIONS for name in option.env}
    assert set(named) - NO_OPTIONS <= known


@cases("page", NAMES)
def test_make_targets_that_pages_name_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = re.findall(r"(?:`|\$ )make ([a-z]+)", everything()[page])
    assert set(named) <= targets


@cases("page", NAMES)
def test_error_numbers_that_pages_link_to_exist(page: str) -> None:
    named = re.findall(r"#errno-(\d+)", everything()[page])
    assert {int(number) for number in named} <= set(ERRORS)


@cases("page", NAMES)
def test_no_page_loads_anything_from_elsewhere(page: str) -> None:
    assert not re.search(r"!\[[^]]*\]\(https?:|<(?:img|script|link)\b", everything()[page])


def test_every_limit_is_in_the_table_of_defences() -> None:
    _, _, text = SOURCES["security"].partition("(defences)=")
    table = text.partition("None of them drops")[0]
    limits = [option.name for option in OPTIONS if option.group == "Limits"]
    assert [name for name in limits if f"`{name}`" not in table] == []


def test_every_extra_is_listed() -> None:
    with (ROOT / "packages" / "autopush" / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    text = (ROOT / "docs" / "getting-started.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)) == set(extras)


def test_the_version_is_the_same_everywhere() -> None:
    found = {re.findall(r"^## (\S+)", CHANGELOG, re.MULTILINE)[0]}
    for path in sorted((ROOT / "packages").glob("*/pyproject.toml")):
        text = path.read_text("utf-8")
        found.update(re.findall(r'^version = "(.+)"$', text, re.MULTILINE))
        found.update(re.findall(r'"(?:keytables|autopush-server)(?:\[\w+\])?==(.+?)"', text))
    for path in sorted((ROOT / "deploy/kubernetes").glob("*.yaml")):
        found.update(re.findall(r"(?:image: autopush:|newTag: )([^@\s]+)", path.read_text("utf-8")))
    found.update(re.findall(r'"version":"(\d.*?)"', README + filled()["getting-started"]))
    found.update(
        re.findall(r"autopush(?:_server)?[_-](\d[.\w]*\d)[_-]", filled()["getting-started"])
    )
    assert len(found) == 1
