"""An operator of the original starts our daemons with the files that are there."""

import asyncio
import json
import secrets
import ssl
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from autopush.commands.network_checks import fetch
from autopush.settings.declaration import OBSOLETE
from autopush.webpush.tokens import new_key
from support.application_server import application_server
from support.certificates import private_pem, self_signed
from support.cluster import CREDENTIALS
from support.dynamo_servers import ministack
from support.megaphone_server import megaphone_server
from support.service import Service
from support.sockets import unused_port
from support.user_agent import UserAgent


class Ports(NamedTuple):
    websocket: int
    router: int
    endpoint: int
    proxied: int
    first_memory: int
    second_memory: int
    statsd: int


SHARED = """\
# Shared options of all nodes
debug
log_level = info
log_output = stdout
firehose_stream_name = push-logs
crypto_key = [{crypto_key}]
key_hash = {key_hash}
datadog_api_key = of-datadog
datadog_app_key = of-datadog
datadog_flush_interval = 3600
hostname = localhost
resolve_hostname
statsd_host = 127.0.0.1
statsd_port = {ports.statsd}
ssl_key = {key}
ssl_cert = {certificate}
;ssl_dh_param = /etc/autopush/dh.pem
router_tablename = {prefix}_router
storage_tablename = {prefix}_storage
message_tablename = {prefix}_message
router_read_throughput = 5
router_write_throughput = 5
storage_read_throughput = 5
storage_write_throughput = 5
message_read_throughput = 5
message_write_throughput = 5
connection_timeout = 1
max_data = 4096
env = production
endpoint_scheme = {scheme}
endpoint_hostname = 127.0.0.1
endpoint_port = {ports.endpoint}
human_logs
no_aws
msg_limit = 100
use_cryptography
sts_max_age = 31536000
_no_sslcontext_cache
aws_ddb_endpoint = {database}
no_table_rotation = false
disable_simplepush = false

gcm_enabled
gcm_ttl = 60
gcm_dryrun
gcm_collapsekey = simplepush
senderid_list = {{"1234": {{"auth": "gcm-key"}}}}
gcm_endpoint = 127.0.0.1:1/gcm/send
fcm_enabled
fcm_ttl = 60
fcm_dryrun
fcm_collapsekey = simplepush
fcm_auth = fcm-server-key
fcm_senderid = 1234
fcm_creds = {{"1234": {{"projectid": "project-1", "auth": "{account}"}}}}
fcm_version = 1
apns_creds = {{"firefox": {{"cert": "{certificate}", "key": "{key}", "topic": "org.example"}}}}
adm_creds = {{"profile": {{"client_id": "id", "client_secret": "adm-secret"}}}}
wake_timeout = 4
wake_pem = {certificate}
wake_server = http://127.0.0.1:1

external_router
max_message_size = 2048
s3_bucket = bucket
senderid_expry = 900
proxy_protocol
apns_enabled
apns_sandbox
apns_cert_file = old.pem
apns_key_file = old.pem
fcm_project_id = x
fcm_service_cred_path = old.json
"""

CONNECTION = """\
port = {ports.websocket}
router_hostname = 127.0.0.1
router_port = {ports.router}
router_ssl_key = {key}
router_ssl_cert = {certificate}
auto_ping_interval = 300
auto_ping_timeout = 4
max_connections = 1000
close_handshake_timeout = 5
hello_timeout = 20
memusage_port = {ports.first_memory}
megaphone_api_url = {megaphone}
megaphone_api_token = Bearer of-a-test
megaphone_poll_interval = 30
"""

ENDPOINT = """\
port = {ports.endpoint}
no_cors
auth_key = [{auth_key}]
client_certs = {{"sender": ["{fingerprint}"]}}
proxy_protocol_port = {ports.proxied}
memusage_port = {ports.second_memory}
"""


class Deployment(NamedTuple):
    """The files of one, in its working directory, and what is in them."""

    folder: Path
    ports: Ports
    certificate: Path

    def client_tls(self) -> ssl.SSLContext:
        """A client that trusts the service, and has the certificate it asks for."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        context.load_cert_chain(self.certificate)
        return context


@pytest.fixture
async def deployment(tmp_path: Path) -> AsyncIterator[Deployment]:
    """The three files, under `configs/` of the working directory."""
    certificate = self_signed(tmp_path / "server.pem")
    pem = certificate.read_text()
    fingerprint = sha256(ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERT") :])).digest()
    private = rsa.generate_private_key(65537, 2048)
    account = {
        "type": "service_account",
        "project_id": "project-1",
        "private_key_id": "1",
        "private_key": private_pem(private).decode(),
        "client_email": "push@project-1.example",
        "token_uri": "https://127.0.0.1:1/token",
    }
    ports = Ports(*(unused_port() for _ in Ports._fields))
    async with megaphone_server() as megaphone:
        megaphone.versions["remote-settings/x"] = "1"
        values = {
            "account": tmp_path / "account.json",
            "auth_key": new_key(),
            "certificate": certificate,
            "crypto_key": new_key(),
            "database": ministack(),
            "fingerprint": fingerprint.hex(":").upper(),
            "key": certificate,
            "key_hash": secrets.token_hex(8),
            "megaphone": megaphone.url,
            "ports": ports,
            "prefix": f"t{secrets.token_hex(6)}",
            "scheme": "https",
        }
        (tmp_path / "account.json").write_text(json.dumps(account))
        (tmp_path / "configs").mkdir()
        for name, text in (("shared", SHARED), ("connection", CONNECTION), ("endpoint", ENDPOINT)):
            path = tmp_path / "configs" / f"autopush_{name}.ini"
            path.write_text(text.format_map(values))
        yield Deployment(tmp_path, ports, certificate)


@asynccontextmanager
async def daemons(deployment: Deployment) -> AsyncIterator[tuple[Service, Service]]:
    """The programs, by the original's names and without any flag. Of AWS and Datadog they find what
    is on this machine, and they trust the certificate of the deployment.
    """
    variables = {
        **CREDENTIALS,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AUTOPUSH_DATADOG_URL": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL_FIREHOSE": "http://127.0.0.1:1",
        "HOME": str(deployment.folder),
        "SSL_CERT_FILE": str(deployment.certificate),
    }
    scripts = Path(sysconfig.get_path("scripts"))

    def daemon(program: str, command: str) -> Service:
        words = ["env", "-C", str(deployment.folder), str(scripts / program)]
        return Service(deployment.folder, (), variables, command=command, wrap=lambda _: words)

    running = daemon("autopush", "connection"), daemon("autoendpoint", "endpoint")
    try:
        await asyncio.gather(*(each.start() for each in running))
        yield running
    finally:
        codes = [await each.stop() for each in running]
    assert codes == [0, 0]


async def test_the_three_files_start_both_daemons_and_a_push_passes_between_them(
    deployment: Deployment,
) -> None:
    ports, tls = deployment.ports, deployment.client_tls()
    async with daemons(deployment) as started:
        agent = await UserAgent.connect(f"wss://127.0.0.1:{ports.websocket}/", tls=tls)
        hello = await agent.hello(broadcasts={"remote-settings/x": "0"})
        assert (hello["env"], hello["broadcasts"]) == ("production", {"remote-settings/x": "1"})
        _, endpoint = await agent.register()
        assert endpoint.startswith(f"https://127.0.0.1:{ports.endpoint}/wpush/")
        async with application_server(tls=tls) as sender:
            assert (await sender.push(endpoint, b"x" * 32)).status == 201
        await agent.notification()
        await agent.close()
        for port in (ports.first_memory, ports.second_memory):
            assert (await fetch(f"http://127.0.0.1:{port}/_memusage")).status == 200
    for name, daemon in product(OBSOLETE, started):
        assert any(f"{name} is obsolete" in line for line in daemon.output), (name, daemon.command)
    for daemon in started:
        assert any("Listening on every interface" in line for line in daemon.output), daemon.command
        for secret in ("gcm-key", "fcm-server-key", "adm-secret", "of-a-test", "of-datadog"):
            assert secret not in "".join(daemon.output)
    routers = "adm, apns, fcm, gcm"
    assert routers in "".join(started[1].output).replace("'", "")
