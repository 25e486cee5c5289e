"""Messages leave the operator's network, except to where somebody there decided on."""

import socket
from ipaddress import ip_address

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from channelstats.notifications.endpoints import (
    LONGEST,
    GuardedResolver,
    check_endpoint,
    is_open,
)
from channelstats.settings import load

PUBLIC = "https://push.example.com/wpush/v2/token"


@pytest.mark.parametrize(
    "endpoint",
    [
        PUBLIC,
        "https://push.example.com:8443/p?x=1",
        "https://93.184.215.14/p",
        "https://PUSH.example.com/p",
    ],
)
def test_an_endpoint_on_the_internet_is_taken_over_tls(endpoint: str) -> None:
    check_endpoint(endpoint, from_here=False)


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "push.example.com/p",
        "http://push.example.com/p",
        "ftp://push.example.com/p",
        "https:///p",
        "https://user@push.example.com/p",
        "https://push.example.com/p#x",
        "https://push.example.com:0/p",
        "https://push.example.com:99999/p",
        "https://push.example.com./p",
        "https://push .example.com/p",
        "https://push.example.com/p\nx",
        "https://pusch.exämple.com/p",
        "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/p",
        "https://10.0.0.1/p",
        "https://192.168.1.1/p",
        "https://169.254.169.254/latest/meta-data",
        "https://100.64.0.1/p",
        "https://0.0.0.0/p",
        "https://224.0.0.1/p",
        "https://[::1]/p",
        "https://push.example.com/" + "x" * LONGEST,
    ],
)
def test_another_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match=r"^endpoint: expected"):
        check_endpoint(endpoint, from_here=True)


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:8082/p", "https://localhost/p", "http://127.8.9.1/p"]
)
def test_loopback_is_for_pages_that_were_opened_there(endpoint: str) -> None:
    check_endpoint(endpoint, from_here=True)
    with pytest.raises(ValueError, match="loopback"):
        check_endpoint(endpoint, from_here=False)


def test_a_host_that_the_operator_named_may_be_private_and_still_needs_tls() -> None:
    own = {"10.0.0.1", "push.lan"}
    for host in own:
        check_endpoint(f"https://{host}/p", from_here=False, own_hosts=own)
        with pytest.raises(ValueError, match="https"):
            check_endpoint(f"http://{host}/p", from_here=False, own_hosts=own)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("::ffff:93.184.215.14", True),
        ("64:ff9b::93.184.215.14", True),
        ("64:ff9b::10.0.0.1", False),
        ("2002:7f00:1::", False),
        ("2002:5db8:d70e::", False),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False),
        ("127.0.0.1", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.0.1", False),
        ("169.254.169.254", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("224.0.0.1", False),
        ("ff02::1", False),
        ("0.0.0.0", False),
        ("255.255.255.255", False),
    ],
)
def test_an_address_is_open_when_it_is_nobodys_own(address: str, expected: bool) -> None:
    assert is_open(ip_address(address)) is expected


def test_the_operator_names_hosts_in_any_case() -> None:
    found = load({"push_hosts": "Push.lan, 10.0.0.7"}, {}).own_push_hosts
    assert found == {"push.lan", "10.0.0.7"}
    assert load({}, {}).own_push_hosts == frozenset()


class Names(AbstractResolver):
    """A resolver that knows these names."""

    def __init__(self, **addresses: list[str]) -> None:
        self.addresses = addresses
        self.closed = False

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=found, port=port, family=family, proto=0, flags=0)
            for found in self.addresses[host]
        ]

    async def close(self) -> None:
        self.closed = True


async def resolved(host: str, *own: str, **addresses: list[str]) -> list[str]:
    found = await GuardedResolver(own, Names(**addresses)).resolve(host, 443)
    return [result["host"] for result in found]


async def test_a_name_stands_for_its_open_addresses_alone() -> None:
    both = ["10.0.0.1", "93.184.215.14", "127.0.0.1"]
    assert await resolved("push", push=both) == ["93.184.215.14"]


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1"])
async def test_a_name_that_leads_into_a_private_network_leads_nowhere(address: str) -> None:
    with pytest.raises(OSError, match="network"):
        await resolved("rebound", rebound=[address])


async def test_the_operators_host_may_be_anywhere() -> None:
    assert await resolved("push", "push", push=["10.0.0.1"]) == ["10.0.0.1"]


async def test_localhost_is_loopback_and_nothing_else() -> None:
    assert await resolved("localhost", localhost=["127.0.0.1", "10.0.0.1"]) == ["127.0.0.1"]
