"""Which routers a node has: those of this distribution and of others, as the settings say.

An option whose row names a bridge enables the module of that name, with its function
`create(settings, clock)`. The option `routers` names routers of other distributions, whose function
`create(configuration)` is an entry point of the group `autopush.routers`.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final, cast

from autopush.clock import Clock
from autopush.delivery.bridge_contract import Router
from autopush.settings import OPTIONS, Settings, StartupError
from autopush.store.users import CONNECTING

ENTRY_POINTS: Final = "autopush.routers"


def configured_routers(settings: Settings) -> frozenset[str]:
    """The router types that `load_routers` would create."""
    own = {row.bridge for row in OPTIONS if row.bridge and getattr(settings, row.name)}
    return frozenset(own | (settings.routers or {}).keys())


def router_states(settings: Settings) -> dict[str, bool]:
    """Whether each available router type is configured."""
    own = {row.bridge for row in OPTIONS if row.bridge}
    configured = configured_routers(settings)
    return {name: name in configured for name in sorted(own | configured)}


def load_routers(settings: Settings, clock: Clock) -> dict[str, Router]:
    """By router type.

    :raises StartupError: a router is not installed, or its configuration is wrong
    """
    own = {row.bridge for row in OPTIONS if row.bridge}
    wanted = {row.bridge for row in OPTIONS if row.bridge and getattr(settings, row.name)}
    routers = {name: _create(name, settings, clock) for name in sorted(wanted)}
    for name, configuration in (settings.routers or {}).items():
        if name in own | CONNECTING:
            raise StartupError(f"routers: {name!r} is a router type of autopush itself")
        routers[name] = _third_party(name, configuration)
    return routers


def _create(name: str, settings: Settings, clock: Clock) -> Router:
    return cast(Router, import_module(f"autopush.bridges.{name}").create(settings, clock))


def _third_party(name: str, configuration: Mapping[str, object]) -> Router:
    candidates = tuple(entry_points(group=ENTRY_POINTS, name=name))
    if not candidates:
        raise StartupError(f"routers: no installed package offers a router {name!r}")
    if len(candidates) > 1:
        packages = ", ".join(sorted(each.dist.name for each in candidates if each.dist is not None))
        raise StartupError(f"routers: several packages offer a router {name!r}: {packages}")
    try:
        router = candidates[0].load()(configuration)
    except StartupError as error:
        raise StartupError(f"routers: {name}: {' '.join(str(error).split())}") from None
    except ModuleNotFoundError as error:
        raise StartupError(f"routers: {name} needs {error.name}, which is not installed") from error
    except Exception as error:
        raise StartupError(f"routers: {name} cannot be created: {type(error).__name__}") from error
    if not isinstance(router, Router):
        raise StartupError(f"routers: {name} is no autopush.bridges.Router")
    return router
