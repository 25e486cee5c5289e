"""The console on a port of its own, and operators who are known by a certificate."""

import json
import ssl
from pathlib import Path

import aiohttp
import pytest

from support.certificates import Authority, self_signed
from support.service import autopush, service

START = "/console/"


async def test_an_operators_certificate_opens_the_console_of_an_endpoint_node(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue(tmp_path)
    (tmp_path / "operator").mkdir()
    operator = authority.issue(tmp_path / "operator")
    options = [
        *("--console", "--console-port", "0", "--console-client-ca", str(authority.path)),
        *("--console-ssl-cert", str(issued.certificate), "--console-ssl-key", str(issued.key)),
    ]
    async with service(tmp_path / "data", *options, command="endpoint") as running:
        await running.logged("console https://")
        [line] = [each for each in running.output if each.startswith("console ")]
        url = line.split()[1]
        token = (await autopush("console-token", "--data", running.data)).strip()
        known, foreign, nobody = (authority.client() for _ in range(3))
        known.load_cert_chain(operator.certificate, operator.key)
        foreign.load_cert_chain(self_signed(tmp_path / "foreign.pem"))
        async with aiohttp.ClientSession() as client:
            async with client.get(url + "now.json", ssl=known) as answer:
                assert answer.status == 200
                assert (await answer.json())["workers_ready"] == 1
            form = {"uaid": "0" * 32, "channel": "0" * 32}
            # A page of another site cannot use the certificate of whoever looks at it.
            async with client.post(url + "drop-user.json", data=form, ssl=known) as answer:
                assert answer.status == 403
            own = {"Origin": url.removesuffix(START)}
            change = {"action": "add", "name": "ann"}
            async with client.post(
                url + "accounts-change.json", data=change, headers=own, ssl=known
            ) as answer:
                assert answer.status == 200
            async with client.get(url + "now.json", ssl=nobody) as answer:
                assert answer.status == 401
            bearer = {"Authorization": f"Bearer {token}"}
            async with client.get(url + "now.json", headers=bearer, ssl=nobody) as answer:
                assert answer.status == 200
            with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
                await client.get(url + "now.json", ssl=foreign)
        lines = (await autopush("audit", "--json", "--data", running.data)).splitlines()
        last = json.loads(lines[-1])
        assert last["action"] == "user add"
        assert last["by"].startswith('console, act, certificate of "made by a test, ')
