"""The image, the compose files and the manifests of Kubernetes, without their engines.

What they copy, mount and refer to exists, and nothing of ours runs as root.
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
from urllib.parse import quote

import pytest
import yaml

from keytables.stores import PostgresUrl, parse_store
from support.paths import ROOT

DEPLOY = ROOT / "deploy"
Document = dict[str, Any]
GRACE = 30
"""Seconds that a shutdown may take (`service.supervisor.GRACE_PERIOD`)."""


# ── Dockerfile ────────────────────────────────────────────────────────────────────────────────────


def instructions() -> list[tuple[str, str]]:
    """Those of the Dockerfile: the word, and the rest with continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found = [line.partition(" ") for line in text.splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in found]


def test_what_the_image_copies_exists_and_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    kept = [line[1:] for line in ignored if line.startswith("!")]
    sources = [
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    assert sources
    assert ignored[1] == "*"
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in kept), source
    for pattern in kept:
        assert (ROOT / pattern).exists(), pattern


def test_nothing_is_installed_that_is_not_pinned_by_its_hash() -> None:
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


def test_the_image_has_every_extra_and_what_it_is_built_with() -> None:
    pinned = set(re.findall(r"^([\w.-]+)==", PINNED, re.MULTILINE))
    project = tomllib.loads((ROOT / "packages/autopush/pyproject.toml").read_text("utf-8"))
    wanted = [*project["project"]["dependencies"], "hatchling"]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    names = {re.split(r"[\[>=<]", requirement)[0].lower() for requirement in wanted}
    assert names - {"keytables"} <= pinned


PINNED = (ROOT / "requirements/autopush-all.txt").read_text("utf-8")


def test_the_pins_are_those_that_the_tests_run_with() -> None:
    pins = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
    tested = dict(pins.findall((ROOT / "requirements/dev.txt").read_text("utf-8")))
    shipped = dict(pins.findall(PINNED))
    assert shipped.items() <= tested.items()


def test_the_image_runs_the_service_as_an_ordinary_user_with_a_volume_for_its_data() -> None:
    last = instructions()[[word for word, _ in instructions()].index("LABEL") :]
    values = dict(last)
    assert values["USER"] == "10001"
    assert "--uid 10001" in values["RUN"]
    assert "--mode=700 /data" in values["RUN"]
    assert values["VOLUME"] == "/data"
    assert "AUTOPUSH_DATA=/data" in values["ENV"]
    assert values["EXPOSE"] == "8080 8082"
    assert yaml.safe_load(values["CMD"]) == ["autopush", "serve"]
    order = [word for word, _ in last]
    assert order.index("USER") > order.index("RUN")
    stages = [rest for word, rest in instructions() if word == "FROM"]
    assert len(stages) == 2
    assert all(stage.startswith("python:${PYTHON}-slim") for stage in stages)


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


def test_the_health_check_of_the_image_is_a_program_that_works() -> None:
    check = dict(instructions())["HEALTHCHECK"]
    words = yaml.safe_load(check[check.index("[") :])
    assert words[:2] == ["python", "-c"]
    compile(words[2], "health check", "exec")
    assert "/__lbheartbeat__" in words[2]


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
SERVICES = [
    pytest.param(file, service, id=f"{file}-{name}")
    for file, document in COMPOSE.items()
    for name, service in document["services"].items()
]
SERVICE_KEYS = {
    *("image", "build", "restart", "stop_grace_period", "environment", "ports", "volumes"),
    *("ulimits", "read_only", "tmpfs", "cap_drop", "security_opt", "profiles", "depends_on"),
    *("command", "healthcheck"),
}


def test_every_kind_of_store_has_a_compose_file() -> None:
    assert COMPOSE.keys() == {
        *("compose.yaml", "compose.dynamodb.yaml", "compose.postgresql.yaml"),
    }
    assert COMPOSE["compose.postgresql.yaml"]["services"].keys() == {"autopush", "postgresql"}
    assert COMPOSE["compose.yaml"]["services"].keys() == {"autopush", "caddy"}
    assert COMPOSE["compose.dynamodb.yaml"]["services"].keys() == {
        *("connection", "endpoint", "dynamodb")
    }


@pytest.mark.parametrize(("file", "service"), SERVICES)
def test_a_service_refers_to_what_exists(file: str, service: Document) -> None:
    document = COMPOSE[file]
    assert service.keys() <= SERVICE_KEYS
    assert service["image"]
    assert service["restart"] == "unless-stopped"
    for volume in service.get("volumes", ()):
        source, target = volume.split(":")[:2]
        assert target.startswith("/")
        if source.startswith("."):
            assert (DEPLOY / source).is_file(), source
            assert volume.endswith(":ro")
        else:
            assert source in document["volumes"], source
    for needed in service.get("depends_on", ()):
        assert needed in document["services"]
    if "build" in service:
        context = DEPLOY / service["build"]["context"]
        assert (context / service["build"]["dockerfile"]).is_file()


@pytest.mark.parametrize(("file", "service"), SERVICES)
def test_the_service_is_stopped_in_time_and_reached_on_this_machine_only(
    file: str, service: Document
) -> None:
    if service["image"] != "autopush":
        return
    assert int(service["stop_grace_period"].removesuffix("s")) > GRACE
    for port in service["ports"]:
        host, outside, inside = port.split(":")
        assert host == "127.0.0.1"
        assert (outside, inside) in {("8080", "8080"), ("8082", "8082")}


def test_whoever_is_in_front_of_a_container_says_who_a_client_is() -> None:
    for document in COMPOSE.values():
        for service in document["services"].values():
            if service["image"] == "autopush":
                networks = service["environment"]["AUTOPUSH_TRUSTED_PROXIES"]
                assert networks == "[172.16.0.0/12, 192.168.0.0/16]"


def test_no_internal_port_is_published() -> None:
    for document in COMPOSE.values():
        for service in document["services"].values():
            assert not [port for port in service.get("ports", ()) if "8081" in str(port)]


def test_the_service_has_the_database_and_password_that_the_other_container_makes() -> None:
    services = COMPOSE["compose.postgresql.yaml"]["services"]
    ours, theirs = (services[name]["environment"] for name in ("autopush", "postgresql"))
    store = parse_store(ours["AUTOPUSH_STORE"])
    assert isinstance(store, PostgresUrl)
    user = theirs["POSTGRES_USER"]  # names its database too
    assert store.url == f"postgresql://{user}@postgresql/{user}?sslmode=disable"
    assert ours["PGPASSWORD"] == theirs["POSTGRES_PASSWORD"]
    assert ours["PGPASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    assert services["autopush"]["depends_on"]["postgresql"] == {"condition": "service_healthy"}
    assert user in services["postgresql"]["healthcheck"]["test"]


def test_both_daemons_get_the_same_key_and_their_files_where_they_look_for_them() -> None:
    services = COMPOSE["compose.dynamodb.yaml"]["services"]
    keys = {services[name]["environment"]["CRYPTO_KEY"] for name in ("connection", "endpoint")}
    assert len(keys) == 1
    assert keys.pop().startswith("${CRYPTO_KEY:?")
    for name in ("connection", "endpoint"):
        mounted = {volume.split(":")[1] for volume in services[name]["volumes"]}
        assert mounted >= {"/etc/autopush_shared.ini", f"/etc/autopush_{name}.ini"}
    assert "8080" in services["connection"]["healthcheck"]["test"][-1]


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
VERSIONS = {
    "ConfigMap": "v1",
    "Service": "v1",
    "ServiceAccount": "v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "Ingress": "networking.k8s.io/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
}


@pytest.mark.parametrize("file", MANIFESTS)
def test_every_document_has_kind_version_and_a_name_of_its_own(file: str) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in MANIFESTS[file]]
    assert len(set(names)) == len(names)
    for document in MANIFESTS[file]:
        assert document["apiVersion"] == VERSIONS[document["kind"]]


@pytest.mark.parametrize(("file", "workload"), WORKLOADS)
def test_a_pod_is_not_root_has_time_to_stop_and_is_probed(file: str, workload: Document) -> None:
    spec = workload["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] > GRACE
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["enableServiceLinks"] is False
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
    for probe, paths in {
        "startupProbe": {"/__lbheartbeat__"},
        "livenessProbe": {"/__lbheartbeat__"},  # a restart heals no database
        "readinessProbe": {"/__lbheartbeat__"},  # a full disk heals by what is acked
    }.items():
        request = container[probe]["httpGet"]
        assert request["path"] in paths
        assert request["port"] in ports
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    claims = workload["spec"].get("volumeClaimTemplates", ())
    volumes = {volume["name"] for volume in spec["volumes"]}
    assert mounts == volumes | {claim["metadata"]["name"] for claim in claims}
    configured = {
        volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume
    }
    maps = {each["metadata"]["name"] for each in MANIFESTS[file] if each["kind"] == "ConfigMap"}
    assert configured <= maps


@pytest.mark.parametrize(("file", "workload"), WORKLOADS)
def test_labels_and_ports_of_a_service_are_those_of_its_pods(file: str, workload: Document) -> None:
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert workload["spec"]["selector"]["matchLabels"] == labels
    [container] = workload["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    [service] = [
        each
        for each in MANIFESTS[file]
        if each["kind"] == "Service" and each["spec"]["selector"].items() <= labels.items()
    ]
    for port in service["spec"]["ports"]:
        assert ports[port["targetPort"]] == port["port"]
        assert port["targetPort"] not in ("router", "metrics")


def test_the_embedded_store_has_one_pod_and_a_volume_at_the_data_folder() -> None:
    [workload] = [each for each in MANIFESTS["embedded.yaml"] if each["kind"] == "StatefulSet"]
    assert workload["spec"]["replicas"] == 1
    [container] = workload["spec"]["template"]["spec"]["containers"]
    assert {"name": "data", "mountPath": "/data"} in container["volumeMounts"]
    security = workload["spec"]["template"]["spec"]["securityContext"]
    assert security["fsGroup"] == 10001


def test_the_ingress_leads_web_sockets_to_their_port_and_the_rest_to_the_endpoint() -> None:
    [ingress] = [each for each in MANIFESTS["embedded.yaml"] if each["kind"] == "Ingress"]
    [rule] = ingress["spec"]["rules"]
    # With accounts_required the path is /ws/TOKEN.
    assert {path["pathType"] for path in rule["http"]["paths"]} == {"Prefix"}
    backends = {
        path["path"]: path["backend"]["service"]["port"]["name"] for path in rule["http"]["paths"]
    }
    assert backends == {"/ws": "websocket", "/": "endpoint"}
    assert ingress["spec"]["tls"][0]["hosts"] == [rule["host"]]
    [config] = [each for each in MANIFESTS["embedded.yaml"] if each["kind"] == "ConfigMap"]
    settings = tomllib.loads(config["data"]["autopush.toml"])
    assert settings["endpoint_url"] == f"https://{rule['host']}"
    assert settings["websocket_url"] == f"wss://{rule['host']}/ws"


def test_nodes_of_a_cluster_share_their_keys_and_announce_the_address_of_their_pod() -> None:
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]
        for each in MANIFESTS["cluster.yaml"]
        if each["kind"] == "Deployment"
    }
    assert pods.keys() == {"autopush-connection", "autopush-endpoint"}
    assert {str(pod["envFrom"]) for pod in pods.values()} == {
        "[{'secretRef': {'name': 'autopush'}}]"
    }
    [address] = pods["autopush-connection"]["env"]
    assert address["name"] == "ROUTER_HOSTNAME"
    assert address["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    text = Path(DEPLOY / "kubernetes/cluster.yaml").read_text("utf-8")
    assert "--from-literal=CRYPTO_KEY=" in text
    assert "--from-literal=AUTH_KEY=" in text


def test_nodes_over_postgresql_check_its_certificate_and_share_keys() -> None:
    [config] = [each for each in MANIFESTS["postgresql.yaml"] if each["kind"] == "ConfigMap"]
    settings = tomllib.loads(config["data"]["autopush.toml"])
    store = parse_store(settings["store"])
    assert isinstance(store, PostgresUrl)
    [workload] = [each for each in MANIFESTS["postgresql.yaml"] if each["kind"] == "Deployment"]
    spec = workload["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["args"] == ["autopush", "serve"]
    assert container["envFrom"] == [{"secretRef": {"name": "autopush"}}]
    assert [each["name"] for each in container["env"]] == ["ROUTER_HOSTNAME", "PGPASSWORD"]
    [mounted] = [each for each in container["volumeMounts"] if each["name"] == "authority"]
    [volume] = [each for each in spec["volumes"] if each["name"] == "authority"]
    [item] = volume["secret"]["items"]
    place = quote(f"{mounted['mountPath']}/{item['path']}", safe="")
    assert store.url.endswith(f"?sslmode=verify-full&sslrootcert={place}")
    assert [each for each in MANIFESTS["postgresql.yaml"] if each["kind"] == "Service"] == [
        each for each in MANIFESTS["embedded.yaml"] if each["kind"] == "Service"
    ]


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
