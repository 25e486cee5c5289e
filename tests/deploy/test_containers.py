"""The image, the compose files and the manifests of Kubernetes, without their engines.

What the first stage of the image installs is run. Of the rest, what nobody would notice: whose
rights a process has, who reaches which port, who is believed, and what can be pinned.
"""

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from keytables.stores import PostgresUrl, parse_store
from support.paths import ROOT

DEPLOY = ROOT / "deploy"
Document = dict[str, Any]


# ── Dockerfile ────────────────────────────────────────────────────────────────────────────────────


def instructions() -> list[tuple[str, str]]:
    """Those of the Dockerfile: the word, and the rest with continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found = [line.partition(" ") for line in text.splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in found]


def test_nothing_is_installed_that_is_not_pinned_by_its_hash_and_tested() -> None:
    installs = [rest for word, rest in instructions() if word == "RUN" and "pip install" in rest]
    assert installs
    for words in map(shlex.split, installs):
        if "--require-hashes" not in words:
            assert {"--no-deps", "--no-build-isolation"} <= set(words)
            local = [word for word in words if word.startswith("/src/packages/")]
            assert [word for word in words[2:] if not word.startswith("-")] == local
    pinned = (ROOT / "requirements/autopush-all.txt").read_text("utf-8")
    for requirement in re.split(r"\n(?=\S)", pinned.strip()):
        assert "==" in requirement.splitlines()[0]
        assert "--hash=sha256:" in requirement
    pins = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
    tested = dict(pins.findall((ROOT / "requirements/dev.txt").read_text("utf-8")))
    assert dict(pins.findall(pinned)).items() <= tested.items()


def test_the_image_runs_the_service_as_an_ordinary_user_with_data_of_its_own() -> None:
    last = instructions()[[word for word, _ in instructions()].index("LABEL") :]
    values = dict(last)
    assert values["USER"] == "10001"
    assert "--uid 10001" in values["RUN"]
    assert "--mode=700 /data" in values["RUN"]
    order = [word for word, _ in last]
    assert order.index("USER") > order.index("RUN")


PINNING: dict[str, tuple[str, str]] = {
    "Dockerfile": ("python:3.13-slim", "python:${PYTHON}-slim${digest}"),
    "compose.yaml": ("caddy:2", "caddy:2${caddy_digest:-}"),
    "compose.postgresql.yaml": ("postgres:17", "postgres:17${postgres_digest:-}"),
    "compose.dynamodb.yaml": (
        "amazon/dynamodb-local",
        "amazon/dynamodb-local${dynamodb_digest:-}",
    ),
}


@pytest.mark.parametrize("file", PINNING)
def test_an_image_of_others_can_be_pinned_by_the_digest_that_a_line_beside_it_prints(
    file: str,
) -> None:
    text = (DEPLOY / file).read_text("utf-8")
    image, pinnable = PINNING[file]
    assert f"docker buildx imagetools inspect {image} --format '{{{{.Manifest.Digest}}}}'" in text
    named = re.findall(r"^(?:FROM| +image:) (\S+)", text, re.MULTILINE)
    assert {each for each in named if each != "autopush"} == {pinnable}


EXTRAS = "import botocore, google.auth, h2, OpenSSL, sentry_sdk"


def left_out(folder: str, names: list[str]) -> set[str]:
    """Those that .dockerignore leaves out, of what a kept folder has."""
    patterns = [
        line.removeprefix("**/")
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("**/")
    ]
    return {name for name in names if any(fnmatch.fnmatch(name, each) for each in patterns)}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_first_stage_installs_a_service_with_all_its_extras(tmp_path: Path) -> None:
    def inside(path: str) -> Path:
        return tmp_path / path.lstrip("/")

    second_stage = [word for word, _ in instructions()].index("LABEL")
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    for word, rest in instructions()[:second_stage]:
        if word == "COPY":
            *sources, target = rest.split()
            for source in sources:
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, inside(target), ignore=left_out)
                else:
                    inside(target).mkdir(parents=True)
                    shutil.copy(ROOT / source, inside(target))
        elif word == "RUN":
            for root in ("/opt/autopush", "/src"):
                rest = rest.replace(root, str(inside(root)))
            # The pip of the environment of the tests, as new as that of the image's Python, and its
            # cache: the index was read and the wheels were loaded when that was set up.
            own = f"{sys.executable} -m pip --python {inside('/opt/autopush')}"
            rest = rest.replace(str(inside("/opt/autopush/bin/pip")), own)
            rest = rest.replace(" --no-cache-dir", " --no-compile")
            subprocess.run(["bash", "-ec", rest], check=True, env=environment, timeout=600)
    programs = inside("/opt/autopush/bin")
    assert not [*inside("/src").rglob("tests")]

    def run(*words: str | Path) -> str:
        ended = subprocess.run(
            words,
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    run(programs / "python", "-c", EXTRAS)
    assert run(programs / "autopush", "--version").startswith("autopush 2.")
    assert run(programs / "autokey").startswith("Key = ")
    assert "/data" in run(programs / "autopush", "settings", "--data", "/data")


# ── Compose ───────────────────────────────────────────────────────────────────────────────────────

COMPOSE = {
    path.name: yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
    for path in DEPLOY.glob("compose*")
}
OURS = [
    pytest.param(service, id=f"{file}-{name}")
    for file, document in COMPOSE.items()
    for name, service in document["services"].items()
    if service["image"] == "autopush"
]


@pytest.mark.parametrize("service", OURS)
def test_the_public_ports_are_reached_on_this_machine_only_and_no_other_one_at_all(
    service: Document,
) -> None:
    assert service["ports"]
    assert set(service["ports"]) <= {"127.0.0.1:8080:8080", "127.0.0.1:8082:8082"}


@pytest.mark.parametrize("service", OURS)
def test_whoever_is_in_front_of_a_container_says_who_a_client_is(service: Document) -> None:
    networks = service["environment"]["AUTOPUSH_TRUSTED_PROXIES"]
    assert networks == "[172.16.0.0/12, 192.168.0.0/16]"


SECRETS = {"CRYPTO_KEY", "PGPASSWORD", "POSTGRES_PASSWORD"}


@pytest.mark.parametrize("document", COMPOSE.values(), ids=COMPOSE)
def test_no_secret_has_a_default(document: Document) -> None:
    for service in document["services"].values():
        for name in service.get("environment", {}).keys() & SECRETS:
            assert re.match(r"\$\{\w+:\?", service["environment"][name]), name


# ── Kubernetes ────────────────────────────────────────────────────────────────────────────────────

MANIFESTS = {
    path.name: list(yaml.load_all(path.read_text("utf-8"), Loader=yaml.CSafeLoader))
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
}
PORTS = {"websocket": 8080, "router": 8081, "endpoint": 8082, "metrics": 9090}
WORKLOADS = [
    pytest.param(file, document, id=f"{file}-{document['metadata']['name']}")
    for file, documents in MANIFESTS.items()
    for document in documents
    if document["kind"] in ("Deployment", "StatefulSet")
]


@pytest.mark.parametrize(("file", "workload"), WORKLOADS)
def test_a_pod_is_not_root_writes_its_volumes_only_and_is_scraped_at_its_own_port(
    file: str, workload: Document
) -> None:
    spec = workload["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 10001
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports.items() <= PORTS.items()
    assert "metrics" in ports
    annotations = workload["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(PORTS["metrics"]),
    }
    # A restart heals no database.
    assert container["livenessProbe"]["httpGet"]["path"] == "/__lbheartbeat__"


@pytest.mark.parametrize("file", MANIFESTS)
def test_no_service_leads_to_the_internal_port_or_the_metrics(file: str) -> None:
    led_to = {
        port["targetPort"]
        for each in MANIFESTS[file]
        if each["kind"] == "Service"
        for port in each["spec"]["ports"]
    }
    assert led_to
    assert led_to <= {"websocket", "endpoint"}


def test_nodes_over_postgresql_check_its_certificate() -> None:
    [config] = [each for each in MANIFESTS["postgresql.yaml"] if each["kind"] == "ConfigMap"]
    store = parse_store(tomllib.loads(config["data"]["autopush.toml"])["store"])
    assert isinstance(store, PostgresUrl)
    assert "?sslmode=verify-full&sslrootcert=" in store.url


@pytest.mark.parametrize(
    ("file", "name", "ports"),
    [
        ("cluster.yaml", "autopush-connection", ["websocket"]),
        ("cluster.yaml", "autopush-endpoint", ["endpoint"]),
        ("postgresql.yaml", "autopush", ["websocket", "endpoint"]),
        ("embedded.yaml", "autopush", ["websocket", "endpoint"]),
    ],
)
def test_only_nodes_reach_the_internal_port_and_only_prometheus_the_metrics(
    file: str, name: str, ports: list[str]
) -> None:
    [policy] = [
        each
        for each in MANIFESTS[file]
        if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == name
    ]
    public, *internal, metrics = policy["spec"]["ingress"]
    assert public == {"ports": [{"port": port} for port in ports]}
    nodes = {"from": [{"podSelector": {"matchLabels": {"app": "autopush"}}}]}
    has_router = name == "autopush-connection" or file == "postgresql.yaml"
    assert internal == ([nodes] if has_router else [])
    assert metrics["ports"] == [{"port": "metrics"}]
    [source] = metrics["from"]
    assert source.keys() == {"namespaceSelector"}
    [config] = [each for each in MANIFESTS[file] if each["kind"] == "ConfigMap"]
    settings = tomllib.loads(config["data"]["autopush.toml"])
    assert settings["metrics_port"] == PORTS["metrics"]
