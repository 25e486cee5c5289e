"""Ports that are not public answer to names of this machine, to which no web page can lead."""

from autopush.api.browsers import for_own_names
from autopush.net.http_messages import Request, Response
from support.cases import cases

HANDLER = for_own_names(["Push.Example.", "node"], lambda _: Response(200))


def status(**headers: str) -> int:
    answer = HANDLER(Request("GET", "/metrics", "", headers, "127.0.0.1"))
    assert isinstance(answer, Response)
    return answer.status


@cases(
    "host",
    [
        *("127.0.0.1:8081", "127.0.0.1", "[::1]:8081", "[2001:db8::1]", "192.0.2.7:8081"),
        *("localhost:8081", "LOCALHOST", "autopush:8081", "push.example:8081", "PUSH.example"),
        *("autopush.default.svc.cluster.local:8081", "autopush.default.svc", "nas.local."),
        "a.localhost:1",
    ],
)
def test_addresses_local_names_and_own_names_are_served(host: str) -> None:
    assert status(host=host) == 200
    assert status() == 200, "no browser leaves it out"


@cases(
    "host",
    [
        *(
            "evil.example:8081",
            "evil.example",
            "push.example.evil.example",
            "127.0.0.1.evil.example",
        ),
        *(
            "local.evil.example",
            "evil.example.",
            "127.0.0.1@evil.example",
            "1.2.3",
            "evillocal.com",
        ),
    ],
)
def test_a_name_that_anybody_may_register_is_421(host: str) -> None:
    assert status(host=host) == 421
