"""TLS of a process: its listeners, and its calls to other nodes.

Rule: the files are read before anything is bound, and an error stops the start. An error at a later
reload is logged, and the former files stay in use.
"""

from typing import Final, NamedTuple

from autopush.net.tls import ClientTls, ServerTls, TlsFileError
from autopush.settings import Settings, StartupError
from autopush.telemetry import logs

_log = logs.get(__name__)


class _Options(NamedTuple):
    """The options of one certificate, by the parts that `TlsFileError` names."""

    certificate: str
    key: str
    dh_parameters: str = ""
    asks_clients: bool = False
    """Whether clients are asked for a certificate."""


_PUBLIC: Final = _Options("ssl_cert", "ssl_key", "ssl_dh_param")
_ROUTER: Final = _Options("router_ssl_cert", "router_ssl_key")
_BY_PURPOSE: Final = {
    "websocket": _PUBLIC,
    "endpoint": _PUBLIC,
    "proxied": _PUBLIC,
    "router": _ROUTER,
}
"""The certificate of each listener; the others are for this machine or its network alone."""
_OF_ENDPOINT: Final = ("endpoint", "proxied")
"""Purposes to which the option `client_certs` applies."""


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
        if self._asks_clients and purpose in _OF_ENDPOINT:
            return _PUBLIC._replace(asks_clients=True)
        return _BY_PURPOSE.get(purpose)

    def warn(self, now: float) -> None:
        """Log warnings about the files. `now`: epoch seconds."""
        for options, tls in self._servers.items():
            for warning in tls.warnings(now):
                _log.warning(f"{options.certificate}: {warning}")

    def reload(self, now: float) -> None:
        """Read all files again, for new connections; may run in a thread. `now`: epoch seconds."""
        for options, tls in self._servers.items():
            try:
                tls.reload()
            except TlsFileError as error:
                _log.error(
                    "A certificate cannot be used; the former one stays in use",
                    option=getattr(options, error.part),
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
            _log.error(
                "The CAs of other nodes cannot be read; the former ones stay in use",
                option="router_ssl_ca",
                reason=str(error),
            )
        self.warn(now)


def _load(settings: Settings, options: _Options) -> ServerTls | None:
    certificate, key = getattr(settings, options.certificate), getattr(settings, options.key)
    dh_parameters = getattr(settings, options.dh_parameters) if options.dh_parameters else ""
    if not certificate and not key:
        return None
    for given, missing in (options[:2], options[1::-1]):
        if not getattr(settings, missing):
            raise StartupError(f"{given} needs {missing}")
    try:
        return ServerTls(certificate, key, dh_parameters, asks_clients=options.asks_clients)
    except TlsFileError as error:
        raise StartupError(f"{getattr(options, error.part)}: {error}") from None
