"""Builds what a release consists of: `python packaging/release.py --help`."""

import argparse
import hashlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import bundle
import deb
import image
import one_file
from bundle import ROOT, run

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom

WORK: Final = ROOT / ".tools" / "release"
"""Keeps packages of Debian between two builds; make clean removes it."""
FAST: Final = 1
SMALL: Final = 9
"""Levels of compression."""


def version() -> str:
    text = (ROOT / "packages/autopush/pyproject.toml").read_text("utf-8")
    [found] = re.findall(r'^version = "(.+)"$', text, re.MULTILINE)
    return str(found)


def epoch() -> int:
    """The time of all files: of the last commit, so that two builds give the same."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct"))


def release_notes(changelog: str, wanted: str) -> str:
    """The part of CHANGELOG.md under the heading of that version."""
    found = re.search(rf"^## {re.escape(wanted)}$(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if found is None:
        sys.exit(f"CHANGELOG.md has no heading `## {wanted}`")
    return found[1].strip() + "\n"


def bill_of_materials(folder: Path, debian: dict[str, str]) -> "Bom":
    """`debian`: versions of the packages that the bundle is made from, by name."""
    # What only a whole release needs.
    from cyclonedx.model.bom import Bom  # noqa: PLC0415
    from cyclonedx.model.component import Component, ComponentType  # noqa: PLC0415
    from packageurl import PackageURL  # noqa: PLC0415

    bom = Bom()
    bom.metadata.component = Component(
        name="autopush", version=version(), type=ComponentType.APPLICATION
    )
    urls = [
        PackageURL("pypi", name=each.name, version=each.version)
        for each in bundle.components(folder)
    ]
    arch = {"arch": "amd64", "distro": bundle.BUILD_HOST}
    urls += [PackageURL("deb", "debian", name, text, arch) for name, text in debian.items()]
    for url in urls:
        library = Component(
            name=url.name,
            version=url.version,
            purl=url,
            bom_ref=url.to_string(),
            type=ComponentType.LIBRARY,
        )
        bom.components.add(library)
    bom.register_dependency(bom.metadata.component, bom.components)
    return bom


def build_all(out: Path) -> None:
    from cyclonedx.output import make_outputter  # noqa: PLC0415
    from cyclonedx.schema import OutputFormat, SchemaVersion  # noqa: PLC0415

    number, moment = version(), epoch()
    notes = release_notes((ROOT / "CHANGELOG.md").read_text("utf-8"), number)
    os.environ["SOURCE_DATE_EPOCH"] = str(moment)
    shutil.rmtree(WORK / "debs", ignore_errors=True)  # those of today
    shutil.rmtree(WORK / "root", ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    bundle.build_wheels(out)
    folder = WORK / "bundle"
    bundle.build(folder, out, WORK)
    one_file.build(folder, out / "autopush", number, moment, level=SMALL)
    deb.build(folder, out / f"autopush_{number}_amd64.deb", number, moment)
    image.build(folder, out / f"autopush_{number}_oci.tar", number, moment, WORK, level=SMALL)
    bom = bill_of_materials(folder, bundle.debian_versions(WORK, (*bundle.DEBIAN, *bundle.IMAGE)))
    writer = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6)
    (out / f"autopush_{number}_sbom.json").write_text(writer.output_as_string(indent=1))
    (out / "RELEASE_NOTES.md").write_text(notes, "utf-8")
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}
    (out / "SHA256SUMS").write_text("".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["all", "bundle", "file", "deb", "image"])
    parser.add_argument("out", type=Path, help="the folder of all, or of a bundle, else the file")
    parser.add_argument("--bundle", type=Path, help="what file, deb and image are made from")
    parser.add_argument("--version", default=version(), help="of the package [%(default)s]")
    arguments = parser.parse_args()
    what, out, number = arguments.what, arguments.out.absolute(), arguments.version
    folder: Path = arguments.bundle
    if what == "all":
        build_all(out)
    elif what == "bundle":
        with tempfile.TemporaryDirectory() as wheels:
            bundle.build_wheels(Path(wheels))
            bundle.build(out, Path(wheels), WORK)
    elif what == "file":
        one_file.build(folder, out, number, epoch(), level=FAST)
    elif what == "deb":
        deb.build(folder, out, number, epoch(), compression="-z1")
    else:
        image.build(folder, out, number, epoch(), WORK, level=FAST)


if __name__ == "__main__":
    main()
