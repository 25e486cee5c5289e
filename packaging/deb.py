"""The Debian package: the bundle, and what belongs to a service of the system."""

import gzip
import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import command_docs
from bundle import HOME, PROGRAMS, ROOT, run

_SOURCES: Final = Path(__file__).parent / "debian"
_CONTROL: Final = """\
Package: autopush
Version: {version}
Architecture: amd64
Maintainer: {maintainer}
Installed-Size: {size}
Depends: libc6 (>= 2.35), ca-certificates, init-system-helpers (>= 1.54), passwd
Section: net
Priority: optional
Description: Web Push service that you can run yourself
 Browsers and UnifiedPush distributors connect to it by WebSocket; application
 servers send messages to them by Web Push (RFC 8030), which it delivers or
 stores. It has an embedded store, and can use PostgreSQL or DynamoDB.
 .
 The package brings its own Python with all libraries and optional parts.
"""
_COPYRIGHT: Final = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: autopush

Files: *
Copyright: 2026 the contributors to autopush
License: MPL-2.0
 On Debian systems, the licence is in /usr/share/common-licenses/MPL-2.0.

Files: usr/lib/autopush/*
Copyright: 1991-2026 the authors named in /usr/lib/autopush/licences, and in the .dist-info
 folders below /usr/lib/autopush/lib
License: several
 Each part has its own: Python and the libraries of Debian in
 /usr/lib/autopush/licences, Python packages in their .dist-info folders.
"""


def build(bundle: Path, out: Path, version: str, epoch: int, *, compression: str = "-Zxz") -> None:
    """`version`: of the package, which sorts as Debian sorts them."""
    tree = out.parent / f".{out.name}"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(bundle, tree / HOME.lstrip("/"), symlinks=True, copy_function=os.link)
    moment = datetime.fromtimestamp(epoch, UTC)
    maintainer = os.environ.get("DEBEMAIL") or "autopush maintainers <maintainers@autopush.invalid>"

    def put(path: str, text: str, mode: int = 0o644) -> None:
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        target.write_bytes(gzip.compress(data, 9, mtime=0) if path.endswith(".gz") else data)
        target.chmod(mode)

    put("usr/bin/autopush", (_SOURCES / "autopush").read_text(), 0o755)
    put("usr/share/man/man1/autopush.1.gz", command_docs.manual(version, f"{moment:%Y-%m-%d}"))
    for name in PROGRAMS.keys() - {"autopush"}:
        (tree / "usr/bin" / name).symlink_to("autopush")
        (tree / "usr/share/man/man1" / f"{name}.1.gz").symlink_to("autopush.1.gz")
    put("usr/share/bash-completion/completions/autopush", command_docs.bash())
    put("usr/share/zsh/vendor-completions/_autopush", command_docs.zsh())
    put("usr/share/fish/vendor_completions.d/autopush.fish", command_docs.fish())
    put("etc/autopush/autopush.ini", command_docs.short_settings())
    put("etc/logrotate.d/autopush", (ROOT / "deploy/logrotate").read_text())
    for path in sorted((ROOT / "deploy/systemd").iterdir()):
        put(f"usr/lib/systemd/system/{path.name}", unit(path.read_text()))
    documents = "usr/share/doc/autopush"
    put(f"{documents}/copyright", _COPYRIGHT)
    put(f"{documents}/CHANGELOG.md.gz", (ROOT / "CHANGELOG.md").read_text())
    entry = f"autopush ({version}) stable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n"
    signature = f" -- {maintainer}  {moment:%a, %d %b %Y %H:%M:%S} +0000\n"
    put(f"{documents}/changelog.gz", entry + signature)
    put("usr/share/lintian/overrides/autopush", (_SOURCES / "lintian-overrides").read_text())
    for name in ("postinst", "prerm", "postrm"):
        put(f"DEBIAN/{name}", (_SOURCES / name).read_text(), 0o755)
    put("DEBIAN/conffiles", "/etc/autopush/autopush.ini\n/etc/logrotate.d/autopush\n")
    size = sum(path.lstat().st_size for path in tree.rglob("*")) // 1024
    put("DEBIAN/control", _CONTROL.format(version=version, maintainer=maintainer, size=size))
    for folder in (tree, *(path for path in tree.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    run("dpkg-deb", compression, "--root-owner-group", "--build", tree, out)
    shutil.rmtree(tree)


def unit(text: str) -> str:
    """A unit of deploy/systemd, for the package: its paths, its user, ports below 1024."""
    text = text.replace("/opt/autopush/.venv/bin/autopush", "/usr/bin/autopush")
    text = text.replace("/etc/autopush.toml", "/etc/autopush/autopush.ini")
    text = re.sub(r" --data (\$\{STATE_DIRECTORY\}|/var/lib/autopush)(?!\S)", "", text)
    text = text.replace("DynamicUser=yes\n", "")
    if "WatchdogSec=" in text:
        text = re.sub(
            r"^(CapabilityBoundingSet|AmbientCapabilities)=$",
            r"\1=CAP_NET_BIND_SERVICE",
            text,
            flags=re.MULTILINE,
        )
    return text
