"""The bundle: a Python of its own with the service, all extras and every library that they need.

    bundle/bin/autopush …     programs, for /usr/lib/autopush (their first line names the Python)
    bundle/bin/python3        Debian's, which finds its library beside it, wherever that lies
    bundle/lib                OpenSSL and other shared libraries of Debian
    bundle/lib/python3.N      the standard library, and `dist-packages` from wheels

The oldest supported Debian is what the machine has that builds it: a program runs with a newer C
library than it was linked to, never with an older one.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parent.parent
BUILD_HOST: Final = "bookworm"
PYTHON: Final = "3.11"
"""That of the build host."""
HOME: Final = "/usr/lib/autopush"
"""Where packages and images have the bundle."""
PROGRAMS: Final = {
    "autopush": "main",
    "autoendpoint": "autoendpoint",
    "autokey": "autokey",
    "endpoint_diagnostic": "endpoint_diagnostic",
}
"""Functions of `autopush.cli`."""

DEBIAN: Final = (
    *(f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib"),
    *("libssl3", "libffi8", "libbz2-1.0", "liblzma5", "libexpat1", "zlib1g", "libuuid1"),
    *("libstdc++6", "libgcc-s1", "gcc-12-base"),
)
"""Packages that the bundle is made from."""
_TOOLS: Final = ("patchelf",)
IMAGE: Final = ("libc6", "ca-certificates")
"""What the image has besides."""
_OF_GLIBC: Final = re.compile(r"(lib(c|m|dl|rt|pthread|util)|ld-linux-x86-64)\.so\.\d")

_STDLIB_UNUSED: Final = (
    *("distutils", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtle.py", "unittest"),
    *(
        "curses",
        "dbm",
        "sqlite3",
        "cgi.py",
        "cgitb.py",
        "antigravity.py",
        "sitecustomize.py",
        "EXTERNALLY-MANAGED",
    ),
)
_EXTENSIONS_UNUSED: Final = re.compile(
    r"_?(crypt|curses|curses_panel|dbm|gdbm|sqlite3|test\w*|xx\w*|ctypes_test|nis|readline)\."
)
_UNUSED_SUFFIXES: Final = frozenset({".c", ".h", ".pyx", ".pxd", ".pxi", ".pyi", ".hash"})
_UNUSED_NAMES: Final = {"tests", "INSTALLER", "RECORD", "REQUESTED", "direct_url.json"}
_AWS_SERVICES: Final = frozenset({"dynamodb", "firehose", "sso", "sso-oidc", "sts", "signin"})
"""Those that the service calls, and those that botocore gets credentials from."""
_PLATFORMS: Final = [f"manylinux_2_{minor}_x86_64" for minor in (17, 28, 34)]

_LAUNCHER: Final = """\
#!{home}/bin/python3 -I
import sys

from autopush.cli import {function}

sys.exit({function}())
"""
_SITE = '''\
"""Find the certificates of authorities of this system, which each has elsewhere."""

import os

if not {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys():
    for path in (
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
        os.path.join(os.path.dirname(__file__), "dist-packages/certifi/cacert.pem"),
    ):
        if os.path.exists(path):
            os.environ["SSL_CERT_FILE"] = path
            break
'''


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(words, cwd=cwd, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{Path(words[0]).name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def build_wheels(folder: Path) -> None:
    """An sdist and a wheel of each distribution."""
    for package in ("keytables", "autopush", "channelstats", "pytest-autopush"):
        words = ("-m", "build", "--no-isolation", "--outdir", folder, f"packages/{package}")
        run(sys.executable, *words)


def unpack_debian(work: Path, packages: Iterable[str]) -> Path:
    """A folder with what these packages install, in the versions of today."""
    found = re.findall(r'^VERSION_CODENAME="?(\w+)', Path("/etc/os-release").read_text(), re.M)
    if found != [BUILD_HOST] or os.uname().machine != "x86_64":
        sys.exit(f"build this on Debian {BUILD_HOST}, x86-64: its C library is the oldest")
    debs, root = work / "debs", work / "root"
    debs.mkdir(parents=True, exist_ok=True)
    missing = [name for name in packages if not any(debs.glob(f"{name}_*.deb"))]
    if missing:
        download = ["apt-get", "-qq", "download", *missing]
        if subprocess.run(download, cwd=debs, check=False, capture_output=True).returncode:
            run("apt-get", "-qq", "update")  # the lists are old, or there are none
            run(*download, cwd=debs)
    root.mkdir(exist_ok=True)
    for name in missing:
        [deb] = debs.glob(f"{name}_*.deb")
        run("dpkg-deb", "--extract", deb, root)
    return root


def debian_versions(work: Path, packages: Iterable[str]) -> dict[str, str]:
    """Of the packages that `unpack_debian` has loaded, by name."""
    found = {}
    for name in packages:
        [deb] = (work / "debs").glob(f"{name}_*.deb")
        found[name] = run("dpkg-deb", "--field", deb, "Version").strip()
    return found


def build(bundle: Path, wheels: Path, work: Path) -> None:
    """Make the folder `bundle` from the `wheels` of `build_wheels`; `work` keeps packages."""
    root = unpack_debian(work, (*DEBIAN, *_TOOLS))
    shutil.rmtree(bundle, ignore_errors=True)
    (bundle / "bin").mkdir(parents=True)
    stdlib = bundle / "lib" / f"python{PYTHON}"
    shutil.copytree(root / "usr/lib" / f"python{PYTHON}", stdlib, symlinks=True)
    for name in _STDLIB_UNUSED:
        _remove(stdlib / name)
    for extension in (stdlib / "lib-dynload").iterdir():
        if _EXTENSIONS_UNUSED.match(extension.name):
            extension.unlink()
    for folder in stdlib.glob("config-*"):
        _remove(folder)
    python = bundle / "bin/python3"
    shutil.copy(root / f"usr/bin/python{PYTHON}", python)
    run(root / "usr/bin/patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../lib", python)
    _install(stdlib / "dist-packages", wheels)
    _copy_libraries(bundle, root)
    (stdlib / "sitecustomize.py").write_text(_SITE)
    for name, function in PROGRAMS.items():
        launcher = bundle / "bin" / name
        launcher.write_text(_LAUNCHER.format(home=HOME, function=function))
        launcher.chmod(0o755)
    for package in DEBIAN:
        licence = root / "usr/share/doc" / package / "copyright"
        (bundle / "licences").mkdir(exist_ok=True)
        shutil.copy(licence, bundle / "licences" / package)
    for folder in bundle.rglob("__pycache__"):
        _remove(folder)
    # Compiled here, as nobody may write there; not bound to times, which a package may change.
    unchecked = ("--invalidation-mode", "unchecked-hash", "-s", str(bundle), "-p", HOME)
    # The order of a set in a compiled file follows the seed.
    run("env", "-i", "PYTHONHASHSEED=0", python, "-B", "-m", "compileall", "-q", *unchecked, stdlib)
    for path in bundle.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent == bundle / "bin" else 0o644)


def components(bundle: Path) -> list[Distribution]:
    """The Python distributions in the bundle, by name."""
    [libraries] = bundle.glob("lib/python3*/dist-packages")
    return sorted(distributions(path=[str(libraries)]), key=lambda each: each.name.lower())


def _install(target: Path, wheels: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    to = ["--no-compile", "--only-binary", ":all:", "--target", str(target)]
    to += ["--python-version", PYTHON, *(f"--platform={name}" for name in _PLATFORMS)]
    locked = ROOT / "requirements" / "autopush-all.txt"
    run(*pip, *to, "--require-hashes", "-r", locked)
    ours = [
        wheel for name in ("keytables", "autopush_server") for wheel in wheels.glob(f"{name}-*.whl")
    ]
    run(*pip, *to, "--no-deps", *ours)
    installed = {_normal(each.name): each for each in distributions(path=[str(target)])}
    for name in installed.keys() - set(_needed(installed)):  # what only builds need
        for file in installed[name].files or ():
            _remove(Path(str(file.locate())))
    data = target / "botocore/data"
    for folder in data.iterdir():
        if folder.is_dir() and folder.name not in _AWS_SERVICES:
            _remove(folder)
    for name in ("bin", "apsw/sqlite_extra_binaries"):
        _remove(target / name)
    for path in sorted(target.rglob("*"), reverse=True):
        is_unused = path.suffix in _UNUSED_SUFFIXES or path.name in _UNUSED_NAMES
        if is_unused or (path.is_dir() and not any(path.iterdir())):
            _remove(path)


def _needed(installed: dict[str, Distribution]) -> Iterator[str]:
    """Names of what the service with every extra requires, itself included."""
    extras = installed["autopush-server"].metadata.get_all("Provides-Extra") or []
    queue = [Requirement(f"autopush-server[{','.join(extras)}]")]
    seen = set()
    while queue:
        wanted = queue.pop()
        name = _normal(wanted.name)
        yield name
        for text in installed[name].requires or ():
            requirement = Requirement(text)
            marker, key = requirement.marker, (text, frozenset(wanted.extras))
            is_meant = marker is None or any(
                marker.evaluate({"extra": extra, "python_version": PYTHON})
                for extra in ("", *wanted.extras)
            )
            if is_meant and key not in seen:
                seen.add(key)
                queue.append(requirement)


def _copy_libraries(bundle: Path, root: Path) -> None:
    """Those that the executable and the modules name, except what belongs to the C library."""
    queue = [bundle / "bin/python3", *bundle.rglob("*.so"), *bundle.rglob("*.so.*")]
    while queue:
        for name in needed_libraries(queue.pop()):
            if _OF_GLIBC.fullmatch(name) or any(bundle.rglob(name)):
                continue
            found = [
                path / name
                for path in (root / "lib/x86_64-linux-gnu", root / "usr/lib/x86_64-linux-gnu")
            ]
            source = next((path for path in found if path.exists()), None)
            if source is None:
                sys.exit(f"no package of DEBIAN has {name}")
            shutil.copy(source.resolve(), bundle / "lib" / name)
            queue.append(bundle / "lib" / name)


def needed_libraries(path: Path) -> list[str]:
    return re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", path))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
