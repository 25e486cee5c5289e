"""What the node knows of clients, and how many of them share it."""

from autopush.delivery import session_log
from autopush.delivery.session_log import Clients
from support.connection_harness import Harness

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:{0}.0) Gecko/20100101 Firefox/{0}.0"


def test_clients_that_send_the_same_headers_are_one_object() -> None:
    known = Clients()
    client = known.find(FIREFOX.format(128), "push.example")
    assert (client.host, client.names.browser_version) == ("push.example", "128.0")
    assert known.find(FIREFOX.format(128), "push.example") is client
    assert known.find(FIREFOX.format(128), "other.example") is not client


def test_all_versions_of_a_browser_count_in_the_same_series() -> None:
    known = Clients()
    kinds = [known.find(FIREFOX.format(version), "").kind for version in (127, 128)]
    assert kinds == [("Linux", "Firefox", "True")] * 2
    assert known.find("", "").kind == ("Other", "Other", "True")


def test_long_headers_are_cut_and_how_many_are_kept_is_bounded() -> None:
    known = Clients()
    assert len(known.find("", "h" * 10_000).host) == session_log.MAX_HOST
    first = known.find("", "0")
    for number in range(session_log.CLIENTS_KEPT):
        known.find("", str(number + 1))
    assert known.find("", "0") is not first


async def test_connections_of_the_same_client_share_it(harness: Harness) -> None:
    one, other = (harness.connect(FIREFOX.format(128), "push.example") for _ in range(2))
    assert one.connection.session.kind is other.connection.session.kind
