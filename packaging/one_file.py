"""The one file: a shell script with the bundle behind it."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_STUB: Final = Path(__file__).with_suffix(".sh")


def tar(folder: Path, epoch: int, *, level: int, owners: Mapping[str, int] | None = None) -> bytes:
    """A compressed archive of a folder: the same bytes for the same files. It is of root, but for
    the folders in `owners`, by path.
    """
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=level, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            info = archive.gettarinfo(path, name)
            info.uid = info.gid = (owners or {}).get(name, 0)
            info.uname = info.gname = ""
            info.mtime = epoch
            if path.is_file() and not path.is_symlink():
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
                with path.open("rb") as file:
                    archive.addfile(info, file)
            else:
                archive.addfile(info)
    return buffer.getvalue()


def build(bundle: Path, out: Path, version: str, epoch: int, *, level: int = 9) -> None:
    payload = tar(bundle, epoch, level=level)
    stub = _STUB.read_text("utf-8")
    values = {
        "VERSION": version,
        "HASH": hashlib.sha256(payload).hexdigest()[:16],
        "LINES": str(stub.count("\n") + 1),
    }
    for name, value in values.items():
        stub = stub.replace(f"@{name}@", value)
    out.write_bytes(stub.encode() + payload)
    out.chmod(0o755)
