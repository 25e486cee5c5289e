"""TLS of a process: its listeners, and its calls to other nodes.

Rule: the files are read before anything is bound, and an error stops the start. An error at a later
reload is logged, and the former files stay in use.
"""

import asyncio
import time
from typing import Final, NamedTuple

from autopush.acme.files import CertificateFolder
from autopush.clock import Clock, until_next
from autopush.net.tls import ClientTls, ServerTls, TlsFileError
from autopush.settings import Settings, StartupError
from autopush.telemetry import logs
from autopush.telemetry.metric_table import CERTIFICATE_LEFT
from autopush.telemetry.metrics import Metrics

DAY: Final = 86_400.0
WATCH_INTERVAL: Final = 1.0
"""Seconds between two looks at the file of a certificate by ACME."""

_log = logs.get(__name__)


class _Options(NamedTuple):
    """The options of one certificate, by the parts that `TlsFileError` names."""

    certificate: str
    key: str
    dh_parameters: str = ""
    asks_clients: bool = False
    """Whether clients are asked for a certificate."""
    authorities: str = ""
    """CAs of clients that are known by their certificates."""


_PUBLIC: Final = _Options("ssl_cert", "ssl_key", "ssl_dh_param")
_OWN: Final = _Options("domain", "domain", "ssl_dh_param")
"""In place of `_PUBLIC`, of a service that gets its certificate by ACME."""
_ROUTER: Final = _Options("router_ssl_cert", "router_ssl_key")
_CONSOLE: Final = _Options("console_ssl_cert", "console_ssl_key", authorities="console_client_ca")
_BY_PURPOSE: Final = {
    "websocket": _PUBLIC,
    "endpoint": _PUBLIC,
    "proxied": _PUBLIC,
    "router": _ROUTER,
    "console": _CONSOLE,
}
"""The certificate of each listener; the others are for this machine or its network alone."""
_NOT_PUBLIC: Final = (_ROUTER.certificate, _CONSOLE.certificate)
_OF_ENDPOINT: Final = ("endpoint", "proxied")
"""Purposes to which the option `client_certs` applies."""


class PublicCertificate(NamedTuple):
    """`expires`: epoch seconds. `is_placeholder`, `failure`: of a certificate by ACME, whether none
    was issued yet, and why the last order failed.
    """

    names: tuple[str, ...]
    expires: float
    is_placeholder: bool = False
    failure: str = ""


class Certificates:
    """What the TLS options name. `nodes`: for calls to other nodes.

    :raises StartupError: an option is missing, or a file cannot be used
    """

    def __init__(self, settings: Settings) -> None:
        if settings.router_ssl_key and settings.router_scheme == "http":
            raise StartupError(
                "router_scheme: it is http, but with router_ssl_key the port is https"
            )
        self._asks_clients = bool(settings.client_certs)
        self._own = CertificateFolder(settings.data) if settings.domain else None
        self._stamp = self._present_stamp()
        self._is_placeholder = self._find_placeholder()
        listed = filter(None, map(self._options, settings.listeners))
        self._servers = {
            options: tls
            for options in dict.fromkeys(listed)
            if (tls := _load(settings, options)) is not None
        }
        try:
            self.nodes = ClientTls(settings.router_ssl_ca)
        except TlsFileError as error:
            raise StartupError(f"router_ssl_ca: {error}") from None

    def of(self, purpose: str) -> ServerTls | None:
        """The TLS of a listener (see `Settings.listeners`); None if it has none."""
        options = self._options(purpose)
        return self._servers.get(options) if options else None

    def _options(self, purpose: str) -> _Options | None:
        options = _BY_PURPOSE.get(purpose)
        if options is not _PUBLIC:
            return options
        options = _OWN if self._own is not None else _PUBLIC
        asks_clients = self._asks_clients and purpose in _OF_ENDPOINT
        return options._replace(asks_clients=asks_clients)

    def public(self) -> PublicCertificate | None:
        """That of the public ports, if they speak TLS."""
        for options, tls in self._servers.items():
            if options.certificate in _NOT_PUBLIC:
                continue
            expires = tls.expires.timestamp()
            if self._own is None:
                return PublicCertificate(tls.names, expires)
            failure = self._own.read().failure
            words = failure.words if failure is not None else ""
            return PublicCertificate(tls.names, expires, self._is_placeholder, words)
        return None

    def health(self, now: float) -> dict[str, object] | None:
        """What `/health` says of it. `now`: epoch seconds."""
        public = self.public()
        if public is None:
            return None
        is_valid = not public.is_placeholder and public.expires > now
        return {
            "status": "OK" if is_valid else "NOT OK",
            "names": list(public.names),
            "days_left": int(self._seconds_left(now) // DAY),
            **({"failure": public.failure} if public.failure else {}),
        }

    async def watch(self, metrics: Metrics, clock: Clock, *, reports: bool) -> None:
        """Until cancelled, take a new certificate by ACME. `reports`: for one of the workers, which
        says how long the public one is valid.
        """
        left = metrics.gauge(CERTIFICATE_LEFT)
        while True:
            if (stamp := self._present_stamp()) != self._stamp:
                await asyncio.to_thread(self.reload, clock())
                # That of before: if the file has changed meanwhile, it is read again.
                self._stamp = stamp
            if reports:
                left.set(self._seconds_left(clock()))
            await asyncio.sleep(until_next(WATCH_INTERVAL, time.monotonic()))

    def _seconds_left(self, now: float) -> float:
        for options, tls in self._servers.items():
            if options.certificate not in _NOT_PUBLIC and not self._is_placeholder:
                return tls.expires.timestamp() - now
        return 0.0

    def _find_placeholder(self) -> bool:
        """Whether clients are served one."""
        facts = self._own.served() if self._own is not None else None
        return facts is not None and facts.is_placeholder

    def _present_stamp(self) -> tuple[int, int] | None:
        """Changes with the file of a certificate by ACME."""
        if self._own is None:
            return None
        try:
            status = self._own.certificate.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino

    def warn(self, now: float) -> None:
        """Log warnings about the files. `now`: epoch seconds."""
        for options, tls in self._servers.items():
            for warning in tls.warnings(now):
                _log.warning(f"{options.certificate}: {warning}")

    def reload(self, now: float) -> list[str]:
        """Read all files again, for new connections; may run in a thread. `now`: epoch seconds.

        Returns what cannot be used, each with its option.
        """
        problems = []
        for options, tls in self._servers.items():
            try:
                tls.reload()
            except TlsFileError as error:
                option = getattr(options, error.part)
                problems.append(f"{option}: {error}; the former one stays in use")
                _log.error(
                    "A certificate cannot be used; the former one stays in use",
                    option=option,
                    reason=str(error),
                )
            else:
                _log.info(
                    "A certificate was read again",
                    option=options.certificate,
                    names=list(tls.names),
                    expires=tls.expires.isoformat(),
                )
        try:
            self.nodes.reload()
        except TlsFileError as error:
            problems.append(f"router_ssl_ca: {error}; the former ones stay in use")
            _log.error(
                "The CAs of other nodes cannot be read; the former ones stay in use",
                option="router_ssl_ca",
                reason=str(error),
            )
        self._is_placeholder = self._find_placeholder()
        self.warn(now)
        return problems


def _load(settings: Settings, options: _Options) -> ServerTls | None:
    certificate, key = getattr(settings, options.certificate), getattr(settings, options.key)
    if options.certificate == _OWN.certificate:
        certificate = key = str(CertificateFolder(settings.data).certificate)
    dh_parameters = getattr(settings, options.dh_parameters) if options.dh_parameters else ""
    if not certificate and not key:
        return None
    for given, missing in (options[:2], options[1::-1]):
        if not getattr(settings, missing):
            raise StartupError(f"{given} needs {missing}")
    authorities = getattr(settings, options.authorities) if options.authorities else ""
    try:
        return ServerTls(
            certificate,
            key,
            dh_parameters,
            asks_clients=options.asks_clients,
            authorities=authorities,
        )
    except TlsFileError as error:
        raise StartupError(f"{getattr(options, error.part)}: {error}") from None
