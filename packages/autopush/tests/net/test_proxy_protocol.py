"""The header of the PROXY protocol: addresses, bounds, refusals, and any way of arriving."""

from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autopush.net.listener import MAX_HEADER, MAX_LINE, ProxyHeaderError, parse_proxy_header
from support.cases import cases
from support.proxy_headers import (
    CLIENT4,
    CLIENT6,
    LOCAL,
    SIGNATURE,
    UDP4,
    UNIX,
    UNSPECIFIED,
    binary,
    framed,
    line,
    tlv,
)

HEADERS = {
    line(): CLIENT4,
    line(CLIENT6, "TCP6"): CLIENT6,
    line("2001:0DB8:0:0::7", "TCP6"): CLIENT6,
    line(f"::ffff:{CLIENT4}", "TCP6"): CLIENT4,
    b"PROXY UNKNOWN\r\n": "",
    b"PROXY UNKNOWN ffff::1 whatever the proxy says\r\n": "",
    b"PROXY UNKNOWN ".ljust(MAX_LINE - 2, b"x") + b"\r\n": "",
    binary(): CLIENT4,
    binary(CLIENT6): CLIENT6,
    binary(f"::ffff:{CLIENT4}"): CLIENT4,
    binary(tlvs=tlv(0xEA, b"\x01vpce-0123456789abcdef0") + tlv(0x04, b"")): CLIENT4,
    binary(CLIENT6, tlvs=b"x" * (MAX_HEADER - 16 - 36)): CLIENT6,
    binary(family=UNIX): "",
    binary(family=UNSPECIFIED): "",
    framed(b"", family=UNSPECIFIED): "",
    binary(command=LOCAL): "",
    framed(b"", command=LOCAL, family=0xFF): "",
}


def receive(chunks: Iterable[bytes]) -> tuple[str | None, int]:
    """The source, None if the header is incomplete, and the size of the header or its part."""
    received = b""
    for chunk in chunks:
        received += chunk
        header = parse_proxy_header(received)
        if header is not None:
            return header[1], header[0]
    return None, len(received)


@st.composite
def pieces(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The same bytes in pieces, some of them empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@given(st.data(), st.sampled_from(list(HEADERS)), st.binary(max_size=40))
def test_a_header_is_the_same_however_it_arrives_and_nothing_behind_it_is_consumed(
    data: st.DataObject, header: bytes, rest: bytes
) -> None:
    assert receive(data.draw(pieces(header + rest))) == (HEADERS[header], len(header))


@given(st.data(), st.sampled_from(list(HEADERS)))
def test_a_part_of_a_header_is_incomplete(data: st.DataObject, header: bytes) -> None:
    part = header[: data.draw(st.integers(0, len(header) - 1))]
    assert parse_proxy_header(part) is None


@given(st.binary(max_size=200), st.data())
@example(b"GET / HTTP/1.1\r\n\r\n", None)
def test_other_bytes_are_refused_or_waited_for_within_the_bound(
    tail: bytes, data: st.DataObject | None
) -> None:
    start = data.draw(st.sampled_from([b"", b"PROXY ", SIGNATURE])) if data is not None else b""
    try:
        header = parse_proxy_header(start + tail)
    except ProxyHeaderError:
        return
    assert len(start + tail) < MAX_HEADER if header is None else header[0] <= MAX_HEADER


@cases(
    "data",
    [
        b"GET /status HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"\r\n\r\nGET",
        b"proxy TCP4",
        b"PROXYTCP4",
        b"PROXY \r\n",
        b"PROXY TCP4\r\n",
        b"PROXY UNKNOWNS\r\n",
        b"PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        b"PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 -1 2\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n\r\n",
        b"PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
        b"PROXY TCP4 192.0.02.1 192.0.2.2 1 2\r\n",
        b"PROXY TCP4 2001:db8::1 192.0.2.2 1 2\r\n",
        b"PROXY TCP4 192.0.2.1 nowhere 1 2\r\n",
        b"PROXY TCP6 192.0.2.1 2001:db8::1 1 2\r\n",
        b"PROXY TCP6 fe80::1%eth0 2001:db8::1 1 2\r\n",
        b"PROXY TCP6 \xff 2001:db8::1 1 2\r\n",
        b"PROXY UNKNOWN ".ljust(MAX_LINE, b"x"),
        b"PROXY UNKNOWN ".ljust(MAX_LINE - 1, b"x") + b"\r\n",
        binary(command=0x22),
        binary(command=0x11),
        binary(family=UDP4),
        binary(family=0x41),
        framed(b"x" * 11),
        framed(b"x" * 35, family=0x21),
        framed(b"x" * 215, family=UNIX),
        framed(b"x" * (MAX_HEADER - 15)),
    ],
)
def test_what_is_no_header_is_refused_without_repeating_it(data: bytes) -> None:
    with pytest.raises(ProxyHeaderError) as refused:
        receive([data])
    assert "192.0.2" not in str(refused.value)


def test_the_longest_line_of_addresses_fits() -> None:
    ports = b" 65535 65535\r\n"
    address = b" ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
    longest = b"PROXY TCP6" + 2 * address + ports
    assert len(longest) <= MAX_LINE
    assert receive([longest]) == (address.strip().decode(), len(longest))
