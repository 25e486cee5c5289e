"""A minimal Debian in a folder, for packages; whoever uses it is root."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.packaged import MODULE_WORDS, run
from support.paths import TOOLS
from support.tools import need

_INSIDE = """
mount --bind /proc "$0/proc"; mount --rbind /dev "$0/dev"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive HOME=/root \\
  chroot "$0" "$@"
"""


class Root:
    """A minimal Debian in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def command(self, *words: str) -> list[str]:
        unshare = need("unshare", "apt-get install util-linux")
        return [unshare, "--mount", "sh", "-c", _INSIDE, str(self.folder), *words]

    def run(self, *words: str, code: int = 0) -> str:
        return run(self.command(*words), code=code)

    def path(self, inside: Path) -> Path:
        return self.folder / inside.relative_to("/")

    def shell(self, script: str) -> str:
        return self.run("sh", "-ec", script)

    def start_words(self, command: Sequence[str]) -> list[str]:
        """The line that starts the service, as `Service.wrap` makes it: that of the unit, without
        --data, which no command needs here; by root, which the service is not.
        """
        unit = self.run("cat", "/usr/lib/systemd/system/autopush.service")
        [line] = re.findall("^ExecStart=(.*)$", unit, re.MULTILINE)
        return self.command(*line.split(), *command[MODULE_WORDS + 3 :])

    def install(self, deb: Path) -> str:
        target = self.folder / "tmp" / deb.name
        target.write_bytes(deb.read_bytes())
        return self.shell(f"apt-get install -y ./tmp/{deb.name} 2>&1; rm ./tmp/{deb.name}")


def _bootstrapped(release: str) -> Path:
    """Made once, with what the package depends on."""
    folder = TOOLS / "debian" / release
    if not folder.exists():
        draft = folder.with_name(f"{release}.draft")
        run(["rm", "-rf", str(draft)])
        folder.parent.mkdir(parents=True, exist_ok=True)
        debootstrap = need("debootstrap", "apt-get install debootstrap")
        sources = run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
        )
        include = "--include=ca-certificates,init-system-helpers"
        words = [debootstrap, "--variant=minbase", include, release, str(draft)]
        run([*words, sources.splitlines()[0]])
        draft.rename(folder)
    return folder


@contextmanager
def empty_root(release: str, folder: Path) -> Iterator[Root]:
    """A copy of that Debian, in a folder below this one."""
    root = Root(folder / "root")
    run(["cp", "-a", str(_bootstrapped(release)), str(root.folder)])
    try:
        yield root
    finally:
        run(["rm", "-rf", str(root.folder)])
