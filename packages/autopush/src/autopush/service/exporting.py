"""Where the metrics of a worker are sent to, from the settings."""

from autopush.settings import Settings
from autopush.telemetry.exporters import Datadog, Exporter, Sender, Statsd
from autopush.telemetry.metrics import Metrics


def new_exporter(settings: Settings, metrics: Metrics) -> Exporter | None:
    """To Datadog if there is a key, else to a statsd server if there is one."""
    sender: Sender
    if settings.datadog_api_key:
        sender = Datadog(
            settings.datadog_url,
            settings.datadog_api_key,
            host=settings.reachable_host,
            interval=settings.datadog_flush_interval,
        )
    elif settings.statsd_server:
        sender = Statsd(settings.statsd_server, settings.statsd_port)
    else:
        return None
    return Exporter(metrics, sender)
