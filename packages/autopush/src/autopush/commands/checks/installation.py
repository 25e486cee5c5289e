"""What is installed: SQLite, the extras that the settings need, and what bridges make of theirs."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Final

from autopush.bridges.discovery import configured_routers, load_routers, load_waker
from autopush.commands.checks import Finding, Subject, fail, ok, warn
from autopush.settings import Settings, StartupError
from autopush.version import VERSION, how_to_install

_OWN_BRIDGES: Final = ("adm", "apns", "fcm", "gcm")

EXTRAS: Final[Sequence[tuple[str, tuple[str, ...], Callable[[Settings], bool]]]] = (
    (
        "bridges",
        ("google.auth", "h2", "httpx"),
        lambda settings: (
            settings.has_endpoint
            and (
                bool(settings.wake_pem) or not configured_routers(settings).isdisjoint(_OWN_BRIDGES)
            )
        ),
    ),
    ("firehose", ("botocore",), lambda settings: bool(settings.firehose_stream_name)),
    ("sentry", ("sentry_sdk",), lambda settings: bool(settings.sentry_dsn)),
    (
        "client-certificates",
        ("OpenSSL",),
        lambda settings: settings.has_endpoint and bool(settings.client_certs),
    ),
)
"""Extras of the distribution, their modules, and whether the settings need them."""


async def check_installation(subject: Subject) -> Sequence[Finding]:
    """SQLite is new enough, and every module that the settings need is there."""
    findings = [ok(f"autopush {VERSION}")]
    if subject.settings.is_embedded:
        findings.append(_check_sqlite())
    for extra, modules, is_needed in EXTRAS:
        if not is_needed(subject.settings):
            continue
        missing = [module for module in modules if not is_installed(module)]
        if missing:
            said = f"{', '.join(missing)} is not installed"
            findings.append(fail(said, how_to_install(extra)))
        else:
            findings.append(ok(f"extra {extra}"))
    return findings


def is_installed(module: str) -> bool:
    """Whether a module, which may be one of a package, can be imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even its package
        return False


def _check_sqlite() -> Finding:
    import apsw  # noqa: PLC0415 - a node on DynamoDB may lack it

    from keytables.sqlite.database import OLDEST_SQLITE  # noqa: PLC0415

    version = apsw.sqlite_lib_version()
    if tuple(map(int, version.split("."))) < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        found = f"SQLite {version} can corrupt a store that several processes share"
        return fail(found, f"{needed} or newer is needed: pip install --upgrade apsw")
    return ok(f"SQLite {version}")


async def check_bridges(subject: Subject) -> Sequence[Finding]:
    """The credentials of every configured bridge can be read; none is asked."""
    settings = subject.settings
    if not settings.has_endpoint:
        return [ok("only endpoint nodes have bridges")]
    try:
        routers = load_routers(settings, subject.clock)
        waker = load_waker(settings)
    except StartupError as error:
        return [fail(str(error), "Correct its option, or remove it")]
    findings = []
    for name, router in sorted(routers.items()):
        if router.start_warning:
            findings.append(warn(f"{name}: {router.start_warning}", "See the page of bridges"))
        else:
            findings.append(ok(f"{name}: its credentials can be read"))
        await router.close()
    if waker is not None:
        findings.append(ok("wake: its certificate can be read"))
        await waker.close()
    return findings or [ok("none is configured")]
