"""The certificate by ACME in the service: what is prepared at the start, and its process."""

import asyncio
import os
import signal
import time
from importlib.util import find_spec

import uvloop

from autopush.acme.files import CertificateFolder
from autopush.acme.process import CertificateJob, serve
from autopush.acme.renewal import WantedCertificate
from autopush.acme.sharing import SharedCertificate
from autopush.net.tls import ClientTls, TlsFileError
from autopush.service.app import ServiceContext
from autopush.service.data_folder import prepare_data_folder
from autopush.service.listeners import close, raise_limit
from autopush.service.storage import open_tables, table_plan
from autopush.settings import Settings, StartupError
from autopush.store.tables import router_table
from autopush.telemetry import logs
from autopush.version import how_to_install
from autopush.webpush.tokens import KeyRing

_log = logs.get(__name__)


def wanted_certificate(settings: Settings) -> WantedCertificate:
    return WantedCertificate(
        settings.domain,
        settings.acme_directory,
        settings.acme_email,
        settings.acme_ca,
        settings.acme_eab_kid,
        settings.acme_eab_key,
    )


def prepare_certificate(settings: Settings) -> None:
    """Have the data folder hold a certificate: its own, or a placeholder.

    :raises StartupError: a file cannot be used, or the library is missing
    """
    if find_spec("acme") is None:
        raise StartupError(f"domain needs acme: {how_to_install('acme')}")
    try:
        ClientTls(settings.acme_ca)
    except TlsFileError as error:
        raise StartupError(f"acme_ca: {error}") from None
    prepare_data_folder(settings.data)
    CertificateFolder(settings.data).prepare(settings.domain, time.time())


def keep_certificate(service: ServiceContext, parent_pipe: int) -> int:
    """The process: serve port 80, order and renew, until the parent is gone or says so."""
    for number, sockets in enumerate(service.sockets):
        close({name: each for name, each in sockets.items() if (number, name) != (0, "http")})
        for other in service.siblings[number].values():
            other.close()
    close(dict(enumerate(service.successors)))
    raise_limit()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(_keep(service, parent_pipe))
            logs.shutdown()
            # The library's client may wait in a thread, for which an exit would wait.
            os._exit(code)
    except StartupError as error:
        _log.error("No certificate can be ordered", reason=str(error))
        return 1


async def _keep(service: ServiceContext, parent_pipe: int) -> int:
    settings, clock = service.settings, service.clock
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGUSR2):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, logs.reopen)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2, signal.SIGHUP])
    loop.add_reader(parent_pipe, stop.set)
    shared = None
    if settings.in_cluster:
        engine = await open_tables(settings, clock)
        router = await engine.open_table(router_table(table_plan(settings).router))
        shared = SharedCertificate(router, KeyRing(service.keys.crypto), clock)
    job = CertificateJob(
        wanted_certificate(settings), CertificateFolder(settings.data), clock, shared
    )
    await serve(job, service.sockets[0]["http"], settings.https_port, stop)
    return 0
