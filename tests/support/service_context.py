"""What the start of a service prepares, for workers in the process of a test."""

from pathlib import Path

from autopush.clock import ServiceClock
from autopush.keys import ServiceKeys
from autopush.service.app import ServiceContext
from autopush.service.certificates import Certificates
from autopush.service.listeners import bind, port_of
from autopush.settings import Settings
from autopush.telemetry.metric_table import METRICS
from autopush.telemetry.metrics import SharedMetrics
from autopush.webpush.tokens import new_key


def service_context(
    folder: Path, command: str = "serve", workers: int = 1, metrics_port: int | None = None
) -> ServiceContext:
    """Of a service with new keys, on free ports, whose data is in that folder."""
    settings = Settings(
        data=folder,
        command=command,
        workers=workers,
        port=0,
        router_port=0,
        metrics_port=metrics_port,
    )
    settings, sockets = bind(settings)
    keys = ServiceKeys((new_key(),), (new_key(),))
    metrics = SharedMetrics(METRICS, workers)
    certificates, clock = Certificates(settings), ServiceClock()
    urls = [settings.node_url(port_of(each["router"])) for each in sockets if "router" in each]
    return ServiceContext(settings, keys, certificates, sockets, metrics, {}, clock, node_urls=urls)
