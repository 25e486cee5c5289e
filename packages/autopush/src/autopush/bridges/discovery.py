"""Which routers a node has: those of this distribution and of others, as the settings say.

An option whose row names a bridge puts the module of that name into service: it has a function
`create(settings, clock)`. The option `routers` names those of other distributions, which offer a
function `create(configuration)` as an entry point of the group `autopush.routers`.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final, cast

from autopush.clock import Clock
from autopush.routing.router import Router
from autopush.settings import OPTIONS, Settings, StartupError
from autopush.store.users import CONNECTING

ENTRY_POINTS: Final = "autopush.routers"
LIBRARIES: Final = frozenset({"google", "h2", "httpx"})
"""What the extra `bridges` installs."""

Create = Callable[[Settings, Clock], Router]


def load_routers(settings: Settings, clock: Clock) -> dict[str, Router]:
    """The configured routers by router type.

    :raises StartupError: one is not installed, or its configuration is wrong
    """
    own = {row.bridge for row in OPTIONS if row.bridge}
    wanted = {row.bridge for row in OPTIONS if row.bridge and getattr(settings, row.name)}
    routers = {name: _create(name)(settings, clock) for name in sorted(wanted)}
    for name, configuration in (settings.routers or {}).items():
        if name in own | CONNECTING:
            raise StartupError(f"routers: {name!r} is a router type of autopush itself")
        routers[name] = _third_party(name, configuration)
    return routers


def _create(name: str) -> Create:
    try:
        return cast(Create, import_module(f"autopush.bridges.{name}").create)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in LIBRARIES:
            raise
        raise StartupError(
            f"the bridge {name} needs {error.name}: pip install 'autopush-server[bridges]'"
        ) from None


def _third_party(name: str, configuration: Mapping[str, object]) -> Router:
    found = tuple(entry_points(group=ENTRY_POINTS, name=name))
    if not found:
        raise StartupError(f"routers: no installed package offers a router {name!r}")
    if len(found) > 1:
        packages = ", ".join(sorted(each.dist.name for each in found if each.dist is not None))
        raise StartupError(f"routers: several packages offer a router {name!r}: {packages}")
    try:
        router = found[0].load()(configuration)
    except StartupError as error:
        raise StartupError(f"routers: {name}: {' '.join(str(error).split())}") from None
    except ModuleNotFoundError as error:
        raise StartupError(f"routers: {name} needs {error.name}, which is not installed") from error
    except Exception as error:
        raise StartupError(f"routers: {name} cannot be created: {type(error).__name__}") from error
    if not isinstance(router, Router):
        raise StartupError(f"routers: {name} is no autopush.bridges.Router")
    return router
