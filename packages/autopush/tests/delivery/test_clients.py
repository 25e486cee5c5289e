"""What the node knows of clients, and how many of them share it."""

from autopush.delivery import session_log
from autopush.delivery.session_log import Clients
from autopush.telemetry.metric_table import UA_REGISTER
from support.connection_harness import Harness
from support.recorded import new_metrics, recorded

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:{0}.0) Gecko/20100101 Firefox/{0}.0"


def test_clients_that_send_the_same_headers_are_one_object() -> None:
    known = Clients(new_metrics())
    client = known.find(FIREFOX.format(128), "push.example")
    assert (client.host, client.names.browser_version) == ("push.example", "128.0")
    assert known.find(FIREFOX.format(128), "push.example") is client
    assert known.find(FIREFOX.format(128), "other.example") is not client


def test_all_versions_of_a_browser_count_in_the_same_series() -> None:
    metrics = new_metrics()
    known = Clients(metrics)
    one, other = (known.find(FIREFOX.format(version), "") for version in (127, 128))
    assert one.metrics is other.metrics
    assert known.find("", "").metrics is not one.metrics
    one.metrics.register.add()
    assert recorded(metrics, UA_REGISTER, ua_os_family="Linux", ua_browser_family="Firefox") == 1


def test_long_headers_are_cut_and_how_many_are_kept_is_bounded() -> None:
    known = Clients(new_metrics())
    assert len(known.find("", "h" * 10_000).host) == session_log.MAX_HOST
    first = known.find("", "0")
    for number in range(session_log.CLIENTS_KEPT):
        known.find("", str(number + 1))
    assert known.find("", "0") is not first


async def test_connections_of_the_same_client_share_it(harness: Harness) -> None:
    one, other = (harness.connect(FIREFOX.format(128), "push.example") for _ in range(2))
    assert one.connection.session.metrics is other.connection.session.metrics
