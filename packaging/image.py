"""The image, written without an engine: the bundle over Debian's C library, as an OCI layout that
`docker load` and `podman load` read too. It has no shell.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bundle import HOME, IMAGE, PROGRAMS, unpack_debian
from one_file import tar

UID: Final = 10001
_FILES: Final = {
    "etc/passwd": f"root:x:0:0::/:/sbin/nologin\nautopush:x:{UID}:{UID}::/data:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nautopush:x:{UID}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
_ALIVE: Final = (
    "from urllib.request import urlopen as o; o('http://127.0.0.1:8080/__lbheartbeat__', timeout=4)"
)
_SECOND: Final = 10**9
"""In nanoseconds."""


def make_root(bundle: Path, root: Path, work: Path) -> None:
    debian = unpack_debian(work, IMAGE)
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(bundle, root / HOME.lstrip("/"), symlinks=True, copy_function=os.link)
    libraries = "lib/x86_64-linux-gnu"
    for pattern in (
        "ld-*",
        "libc.so*",
        "libm.so*",
        "libdl.so*",
        "libpthread.so*",
        "librt.so*",
        "libutil.so*",
        "libresolv.so*",
        "libnss_*",
    ):
        for path in (debian / libraries).glob(pattern):
            target = root / libraries / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target, follow_symlinks=False)
    (root / "lib64").mkdir()
    (root / "lib64/ld-linux-x86-64.so.2").symlink_to(f"/{libraries}/ld-linux-x86-64.so.2")
    (root / "etc/ssl/certs").mkdir(parents=True)
    authorities = sorted((debian / "usr/share/ca-certificates").rglob("*.crt"))
    (root / "etc/ssl/certs/ca-certificates.crt").write_text(
        "".join(path.read_text() for path in authorities)
    )
    for name, text in _FILES.items():
        (root / name).write_text(text)
    (root / "usr/bin").mkdir()
    for name in (*PROGRAMS, "python3"):
        (root / "usr/bin" / name).symlink_to(f"{HOME}/bin/{name}")
    (root / "usr/bin/python").symlink_to("python3")
    for folder in ("tmp", "data"):
        (root / folder).mkdir()
    for path in (root, *(path for path in root.rglob("*") if path.is_dir())):
        path.chmod(0o755)
    (root / "tmp").chmod(0o1777)
    (root / "data").chmod(0o700)


def build(bundle: Path, out: Path, version: str, epoch: int, work: Path, *, level: int = 9) -> None:
    root = out.parent / f".{out.name}"
    make_root(bundle, root, work)
    layer = tar(root, epoch, level=level, owners={"data": UID})
    shutil.rmtree(root)
    created = datetime.fromtimestamp(epoch, UTC).isoformat()
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        media_type = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    config = {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": f"{UID}:{UID}",
            "Env": ["PATH=/usr/bin", "AUTOPUSH_HOST=0.0.0.0", "AUTOPUSH_DATA=/data"],
            "Cmd": ["autopush", "serve"],
            "WorkingDir": "/data",
            "Volumes": {"/data": {}},
            "ExposedPorts": {"8080/tcp": {}},
            "StopSignal": "SIGTERM",
            "Healthcheck": {
                "Test": ["CMD", "python", "-c", _ALIVE],
                "Interval": 30 * _SECOND,
                "Timeout": 5 * _SECOND,
                "StartPeriod": 20 * _SECOND,
            },
            "Labels": {
                "org.opencontainers.image.title": "autopush",
                "org.opencontainers.image.description": "A Web Push service you can run yourself",
                "org.opencontainers.image.licenses": "MPL-2.0",
                "org.opencontainers.image.version": version,
            },
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(gzip.decompress(layer)).hexdigest()}"],
        },
    }
    layers = [blob(layer, "layer.v1.tar+gzip")]
    described = blob(_json(config), "config.v1+json")
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described,
        "layers": layers,
    }
    named = blob(_json(manifest), "manifest.v1+json")
    named["annotations"] = {"org.opencontainers.image.ref.name": version}
    # That of `docker save`, for engines that do not load a layout.
    paths = [f"blobs/{str(each['digest']).replace(':', '/')}" for each in (described, *layers)]
    saved = [{"Config": paths[0], "RepoTags": [f"autopush:{version}"], "Layers": paths[1:]}]
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [named]}),
        "manifest.json": _json(saved),
        **blobs,
    }
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), epoch
            archive.addfile(info, io.BytesIO(data))


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
