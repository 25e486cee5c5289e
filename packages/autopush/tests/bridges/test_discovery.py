"""Which routers the settings put into service, and what the operator reads when one cannot be."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from autopush import bridges
from autopush.bridges import discovery
from autopush.bridges.discovery import configured_routers, load_routers
from autopush.settings import OPTIONS, Settings, StartupError
from support.cases import cases
from support.clocks import ManualClock

SECRET = "sesame-0123456789"

ROUTER = """
from autopush.bridges import Router, RouterResponse, StartupError

class Relay(Router):
    def __init__(self, configuration):
        self.configuration = configuration

    async def route_notification(self, notification, record):
        return RouterResponse()

def create(configuration):
    return Relay(configuration)
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package with one module that offers it as the router `relay`."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(source: str, package: str = "relay-package") -> None:
        module = f"{package.replace('-', '_')}_of_{tmp_path.name.replace('-', '_')}"
        (tmp_path / f"{module}.py").write_text(source)
        metadata = tmp_path / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        entry = f"[{discovery.ENTRY_POINTS}]\nrelay = {module}:create\n"
        (metadata / "entry_points.txt").write_text(entry)

    return install


def settings(**configurations: dict[str, object]) -> Settings:
    return Settings(routers=configurations)


def refusal(settings: Settings) -> str:
    """The one line that says why the routers cannot be loaded."""
    with pytest.raises(StartupError) as caught:
        load_routers(settings, ManualClock())
    text = str(caught.value)
    assert text
    assert "\n" not in text
    assert SECRET not in text
    return text


# ── routers of other packages ───────────────────────────────────────────────────────────────────


def test_a_router_of_another_package_gets_its_configuration(install: Install) -> None:
    install(ROUTER)
    routers = load_routers(settings(relay={"url": "http://h/", "n": 3}), ManualClock())
    assert list(routers) == ["relay"]
    assert vars(routers["relay"]) == {"configuration": {"url": "http://h/", "n": 3}}


def test_an_installed_router_that_is_not_configured_is_not_loaded(install: Install) -> None:
    install("raise RuntimeError('imported')")
    assert entry_points(group=discovery.ENTRY_POINTS, name="relay")
    assert load_routers(Settings(), ManualClock()) == {}


def test_a_router_that_is_not_installed_is_named() -> None:
    text = refusal(settings(relay={"key": SECRET}))
    assert text == "routers: no installed package offers a router 'relay'"


def test_two_packages_that_offer_the_same_router_are_named(install: Install) -> None:
    install(ROUTER)
    install(ROUTER, package="another-package")
    text = refusal(settings(relay={}))
    assert text == (
        "routers: several packages offer a router 'relay': another-package, relay-package"
    )


@cases("name", sorted({"webpush", "simplepush"} | {row.bridge for row in OPTIONS if row.bridge}))
def test_a_router_of_another_package_cannot_take_the_place_of_an_own_one(name: str) -> None:
    assert refusal(settings(**{name: {}})) == (
        f"routers: '{name}' is a router type of autopush itself"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "from autopush.bridges import StartupError\n"
            "def create(configuration):\n"
            "    raise StartupError('url:\\n  expected a URL')",
            "routers: relay: url: expected a URL",
            id="it says what is wrong",
        ),
        pytest.param(
            "def create(configuration):\n    return configuration['key'].missing",
            "routers: relay cannot be created: AttributeError",
            id="it does not",
        ),
        pytest.param(
            "def create(configuration):\n    raise ValueError(configuration['key'])",
            "routers: relay cannot be created: ValueError",
            id="its error repeats a secret",
        ),
        pytest.param(
            "import a_library_of_its_own",
            "routers: relay needs a_library_of_its_own, which is not installed",
            id="its library is missing",
        ),
        pytest.param(
            "def make(configuration): ...",
            "routers: relay cannot be created: AttributeError",
            id="no such function",
        ),
        pytest.param("def create(:", "routers: relay cannot be created: SyntaxError", id="syntax"),
        pytest.param(
            "def create(configuration):\n    return object()",
            "routers: relay is no autopush.bridges.Router",
            id="not a router",
        ),
        pytest.param(
            "from autopush.bridges import Router\n"
            "class Relay(Router): ...\n"
            "def create(configuration):\n    return Relay()",
            "routers: relay cannot be created: TypeError",
            id="without route_notification",
        ),
    ],
)
def test_a_router_that_cannot_be_created_stops_the_start_in_one_line(
    install: Install, source: str, expected: str
) -> None:
    install(source)
    assert refusal(settings(relay={"key": SECRET})) == expected


# ── routers of this distribution ────────────────────────────────────────────────────────────────

OWN = """
from autopush.bridges import Router, RouterResponse

class OwnRouter(Router):
    def __init__(self, settings, clock):
        self.arguments = settings, clock

    async def route_notification(self, notification, record):
        return RouterResponse()

def create(settings, clock):
    return OwnRouter(settings, clock)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Adds a module `own` to `autopush.bridges`, which the option `env` puts into service."""
    [row] = [row for row in OPTIONS if row.name == "env"]
    monkeypatch.setattr(discovery, "OPTIONS", (replace(row, bridge="own"),))
    monkeypatch.setattr(bridges, "__path__", [*bridges.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "autopush.bridges.own", raising=False)

    def write(source: str) -> None:
        (tmp_path / "own.py").write_text(source)

    yield write
    sys.modules.pop("autopush.bridges.own", None)


def test_an_option_with_a_bridge_puts_the_module_of_that_name_into_service(
    own: Callable[[str], None],
) -> None:
    own(OWN)
    settings, clock = Settings(env="test"), ManualClock()
    routers = load_routers(settings, clock)
    assert list(routers) == ["own"]
    assert vars(routers["own"]) == {"arguments": (settings, clock)}


def test_the_configured_router_types_are_known_without_creating_a_router(
    own: Callable[[str], None],
) -> None:
    own("raise RuntimeError('imported')")
    found = configured_routers(Settings(env="test", routers={"relay": {}}))
    assert found == {"own", "relay"}
    assert configured_routers(Settings(env="")) == frozenset()


def test_a_bridge_whose_option_has_no_value_is_not_imported(own: Callable[[str], None]) -> None:
    own("raise RuntimeError('imported')")
    assert load_routers(Settings(env=""), ManualClock()) == {}


def test_a_module_that_is_missing_otherwise_is_a_defect(own: Callable[[str], None]) -> None:
    own("import autopush.no_such_module")
    with pytest.raises(ModuleNotFoundError):
        load_routers(Settings(env="test"), ManualClock())
