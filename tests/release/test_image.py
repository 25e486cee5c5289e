"""The image, unpacked as an engine does it, and run as its user with a read-only root."""

import hashlib
import json
import os
import signal
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.application_server import application_server
from support.packaged import MODULE_WORDS, need_root, packaged, run
from support.service import Service
from support.tools import need

RUN = """
set -e
mount --bind "$0" "$0"
mount --rbind /dev "$0/dev"
mount -t proc proc "$0/proc"
mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"
mount --bind "$1" "$0/data"
mount -o remount,bind,ro "$0"
root=$0
shift
exec env -i "$AUTOPUSH_IMAGE_ENV" PATH=/usr/bin AUTOPUSH_DATA=/data \
  {chroot} --userspec=10001:10001 "$root" "$@"
"""


class Image:
    """Its configuration, and its root in a folder."""

    def __init__(self, archive: Path, folder: Path) -> None:
        layout, self.root, self.data = folder / "layout", folder / "root", folder / "data"
        with tarfile.open(archive) as packed:
            packed.extractall(layout, filter="data")
        for blob in (layout / "blobs/sha256").iterdir():
            assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name

        def read(path: str) -> Any:
            return json.loads((layout / path).read_text())

        def blob_of(descriptor: dict[str, str]) -> str:
            return "blobs/" + descriptor["digest"].replace(":", "/")

        [described] = read("index.json")["manifests"]
        manifest = read(blob_of(described))
        self.config = read(blob_of(manifest["config"]))["config"]
        [saved] = read("manifest.json")  # for engines that read no layout
        assert saved["Layers"] == [blob_of(each) for each in manifest["layers"]]
        for layer in manifest["layers"]:
            with tarfile.open(layout / blob_of(layer)) as packed:
                packed.extractall(self.root, filter="tar")
        for name in ("dev", "proc"):  # an engine makes them
            (self.root / name).mkdir()
        self.data.mkdir(mode=0o700)
        os.chown(self.data, 10001, 10001)

    def command(self, words: Sequence[str], *namespaces: str) -> list[str]:
        """`words` in it, as its user."""
        variables = " ".join(f"'{each}'" for each in self.config["Env"] if "HOST" not in each)
        script = RUN.replace('"$AUTOPUSH_IMAGE_ENV"', variables)
        script = script.format(chroot=need("chroot", "apt-get install coreutils"))
        unshare = [need("unshare", "apt-get install util-linux"), "--mount", *namespaces]
        return [*unshare, "sh", "-c", script, str(self.root), str(self.data), *words]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    need_root()
    return Image(packaged("image"), tmp_path_factory.mktemp("image"))


async def test_it_runs_as_its_user_is_upgraded_as_process_1_and_stops_by_sigterm(
    image: Image,
) -> None:
    assert image.config["User"] == "10001:10001"
    as_process_1 = ("--pid", "--fork", "--kill-child")

    def inside(command: Sequence[str]) -> list[str]:
        words = [*image.config["Cmd"][:1], *command[MODULE_WORDS:]]
        return image.command(words, *as_process_1)

    running = Service(Path("/data"), ["--workers=2"], wrap=inside)
    await running.start()
    [first] = running.workers  # of `unshare`: process 1 in there
    try:
        agent = await running.connect()
        _, endpoint = await agent.register()
        check = [
            word.replace(":8080", f":{running.websocket_port}")
            for word in image.config["Healthcheck"]["Test"]
        ]
        run(image.command(check[1:]))
        nsenter = [need("nsenter", "apt-get install util-linux"), f"--target={first}"]
        nsenter += ["--mount", "--pid", "--root", "--setuid=10001", "--setgid=10001"]
        upgrade = [*nsenter, "/usr/bin/autopush", "upgrade", "--pid=1"]
        assert "The next version serves" in run(upgrade)
        os.kill(first, signal.SIGUSR2)  # of process 1, for the main process of now
        await running.logged("Upgrade: the next version is ready", times=2)
        async with application_server() as sender:
            assert (await sender.push(endpoint, b"after")).status == 201
        await agent.ack([await agent.notification()])
        assert agent.socket.close_code is None
        await agent.close()
        os.kill(first, signal.SIGTERM)
        assert await running.ended() == 0
        assert running.errors == []
    finally:
        with suppress(ProcessLookupError):
            os.kill(first, signal.SIGKILL)  # first: it has the output of the other
        await running.kill()
    assert {path.owner() if path.stat().st_uid == 0 else "" for path in image.data.rglob("*")} == {
        ""
    }


def test_every_program_is_in_it_and_no_shell(image: Image) -> None:
    for name in ("autopush", "autoendpoint", "autokey", "endpoint_diagnostic"):
        assert "usage:" in run(image.command([name, "--help"]))
    assert not (image.root / "bin").exists()
    assert sorted(path.name for path in (image.root / "usr/bin").iterdir()) == [
        *("autoendpoint", "autokey", "autopush", "endpoint_diagnostic", "python", "python3")
    ]
