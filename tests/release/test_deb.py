"""The Debian package, installed in an empty root of each release, used, upgraded and removed.

No service manager runs there: the service is started by the line of its unit.
"""

import sys
from pathlib import Path

import pytest

from autopush.commands import COMMANDS
from support.debian_root import Root, empty_root
from support.packaged import in_release, need_root, packaged, run, upgraded
from support.paths import ROOT
from support.tools import need

pytestmark = [in_release, pytest.mark.slow, pytest.mark.timeout(900)]

RELEASES = ["bookworm", "trixie"]
NEXT = "2.0.0+next"
DATA = "var/lib/autopush"


def foreign(root: Root) -> str:
    """What the data folder has of another user."""
    return root.run("find", f"/{DATA}", "!", "-user", "autopush")


def check_installation(root: Root) -> None:
    """Nothing was started, and secrets are for root and the service."""
    assert root.run("stat", "-c", "%U:%G %a", "/etc/autopush/autopush.ini") == "root:autopush 640\n"
    assert root.run("stat", "-c", "%U:%G %a", f"/{DATA}") == "autopush:autopush 700\n"
    wanted = root.folder / "etc/systemd/system/multi-user.target.wants/autopush.service"
    assert wanted.is_symlink()  # enabled: `systemctl start` suffices
    assert not [*(root.folder / DATA).iterdir()]
    assert "there is no store at /var/lib/autopush/" in root.run("autopush", "check", code=3)
    refused = root.run("setpriv", "--reuid=65534", "--clear-groups", "autopush", "settings", code=3)
    assert refused.startswith("autopush: cannot read /etc/autopush/autopush.ini: Permission denied")


def check_commands_and_manual(root: Root) -> None:
    for command in COMMANDS:
        assert f"usage: autopush {command.name}" in root.run("autopush", command.name, "--help")
    assert "usage:" in root.run("autoendpoint", "--help")
    assert root.run("autokey").startswith("Key = ")
    completion = "usr/share/bash-completion/completions/autopush"
    words = "COMP_WORDS=(autopush upg) COMP_CWORD=1; _autopush; echo ${COMPREPLY[@]}"
    assert root.run("bash", "-c", f". /{completion}; {words}") == "upgrade\n"
    assert "autopush" in run(
        ["man", "--warnings", "-l", str(root.folder / "usr/share/man/man1/autopush.1.gz")]
    )


async def check_upgrade(root: Root, deb: Path) -> None:
    """The next package replaces what runs, and keeps every connection."""
    root.shell("echo 'workers = 2' >> /etc/autopush/autopush.ini")
    run(["cp", str(deb), str(root.folder / "tmp/next.deb")])
    installs = root.command("apt-get", "install", "-y", "/tmp/next.deb")
    async with upgraded(Path("unused"), root.start_words, installs, agents=20) as following:
        assert foreign(root) == ""
        user = root.run("stat", "-c", "%U", f"/proc/{following}/cmdline")
        assert user == "autopush\n"
        root.run("autopush", "user", "add", "ann")
        root.run("autopush", "backup", "/srv")
        assert foreign(root) == ""
    assert NEXT in root.run("dpkg-query", "--showformat=${Version}", "--show", "autopush")
    assert "workers = 2" in root.run("cat", "/etc/autopush/autopush.ini")


def check_commands_of_root(root: Root) -> None:
    """They use the data folder, and leave nothing of root there."""
    assert "/var/lib/autopush" in root.run("autopush", "settings")
    assert "ann" in root.run("autopush", "user", "list")
    root.run("autopush", "user", "revoke", "ann")
    root.run("autopush", "maintain")
    root.run("autopush", "check")
    root.run("autopush", "keys", "rotate", "crypto_key")
    root.run("autopush", "backup", "/srv")
    assert foreign(root) == ""
    backup = sorted((root.folder / "srv").iterdir())[0]
    root.run("autopush", "restore", "--force", f"/srv/{backup.name}")
    assert foreign(root) == ""
    root.shell("rm -r /srv/*")


def check_removal(root: Root) -> None:
    """It keeps the data; a purge does not."""
    (root.folder / "var/lib/autopush-backups/one").mkdir()
    root.run("apt-get", "remove", "-y", "autopush")
    assert [*(root.folder / DATA).iterdir()]
    assert (root.folder / "etc/autopush/autopush.ini").exists()
    assert not (root.folder / "usr/lib/autopush").exists()
    assert "backups" in root.run("apt-get", "purge", "-y", "autopush")
    left = root.run(
        "find", "/", "-xdev", "-path", "/proc", "-prune", "-o", "-name", "*autopush*", "-print"
    )
    assert left.split() == ["/var/lib/autopush-backups"]
    root.run("id", "autopush", code=1)


@pytest.mark.parametrize("release", RELEASES)
async def test_it_is_installed_used_upgraded_removed_and_purged(
    release: str, tmp_path: Path
) -> None:
    need_root()
    deb = tmp_path / f"autopush_{NEXT}_amd64.deb"
    words = ["deb", str(deb), "--bundle", ".tools/release/bundle", "--version", NEXT]
    run([sys.executable, "packaging/release.py", *words], cwd=ROOT)
    with empty_root(release, tmp_path) as root:
        root.install(packaged("deb"))
        check_installation(root)
        check_commands_and_manual(root)
        await check_upgrade(root, deb)
        check_commands_of_root(root)
        check_removal(root)


def test_lintian_accepts_it() -> None:
    lintian = need("lintian", "apt-get install --no-install-recommends lintian")
    fail = ["--fail-on", "error,warning", "--allow-root"]
    assert run([lintian, *fail, str(packaged("deb"))]) == ""
