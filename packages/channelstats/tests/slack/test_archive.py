"""A folder or a zip is opened safely, or not at all."""

import os
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.slack import archive as archives
from channelstats.slack.archive import ArchiveRefused, Unreadable, open_archive
from support.channelstats.workspace import clear_utf8_flags, write_folder, write_zip

FILES = {"users.json": b"[]", "general/2024-03-03.json": b'[{"ts":1}]'}
MEGABYTE = 1 << 20

Write = Callable[[zipfile.ZipFile], None]


def made(folder: Path, write: Write) -> Path:
    path = folder / "made.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        write(archive)
    return path


@pytest.fixture(params=["folder", "zip"])
def archive_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "folder":
        return write_folder(FILES, tmp_path / "export")
    return write_zip(FILES, tmp_path / "export.zip")


def test_a_folder_and_a_zip_hold_the_same(archive_path: Path) -> None:
    with closing(open_archive(archive_path)) as archive:
        assert {name: archive.read(name) for name in archive.names} == FILES
        assert {name: archive.size(name) for name in archive.names} == {
            name: len(data) for name, data in FILES.items()
        }


def test_the_fingerprint_is_the_same_each_time_and_another_for_other_content(
    archive_path: Path, tmp_path: Path
) -> None:
    with closing(open_archive(archive_path)) as first, closing(open_archive(archive_path)) as again:
        assert first.fingerprint == again.fingerprint
        other = write_zip({**FILES, "users.json": b"[1]"}, tmp_path / "other.zip")
        with closing(open_archive(other)) as changed:
            assert changed.fingerprint != first.fingerprint


def test_a_file_above_the_limit_is_not_read(archive_path: Path) -> None:
    with closing(open_archive(archive_path, 5)) as archive:
        assert archive.read("users.json") == b"[]"
        with pytest.raises(Unreadable, match=r"larger than 5 bytes"):
            archive.read("general/2024-03-03.json")


# ── what no export is ────────────────────────────────────────────────────────────────────────────


LEADING_ELSEWHERE = """
../users.json general/../../users.json /etc/passwd //server/share/users.json \\users.json
C:/users.json c:\\users.json C:users.json general\\..\\users.json .. ../ .
"""


@pytest.mark.parametrize("name", LEADING_ELSEWHERE.split())
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    path = made(tmp_path, lambda archive: archive.writestr(name, "[]"))
    with pytest.raises(ArchiveRefused, match=r"not a plain relative path") as refused:
        open_archive(path)
    assert str(refused.value).startswith(f"{path}: '")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("FC:F05MTU6925R:Important links/2023-01-01.json",) * 2,
        ("FC:F05MTU6925R:1:1/2023-01-01.json",) * 2,
        ("FC:F05MTU6925R:to be done../2023-01-01.json",) * 2,
        ("general/C:/2023-01-01.json",) * 2,
        ("FC:F05MTU6925R:this // that/a.json", "FC:F05MTU6925R:this / that/a.json"),
        ("./general/2023-01-01.json", "general/2023-01-01.json"),
        ("general\\2023-01-01.json", "general/2023-01-01.json"),
    ],
)
def test_any_other_name_is_read(tmp_path: Path, path: str, name: str) -> None:
    def write(archive: zipfile.ZipFile) -> None:
        archive.writestr("./", "")
        archive.writestr(path.rpartition("2023")[0] or "empty\\", "")
        archive.writestr(path, "[]")

    with closing(open_archive(made(tmp_path, write))) as archive:
        assert archive.names == [name]
        assert archive.read(name) == b"[]"


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_a_link_or_a_special_file_in_a_zip_is_refused(tmp_path: Path, kind: int) -> None:
    info = zipfile.ZipInfo("users.json")
    info.external_attr = (kind | 0o644) << 16
    path = made(tmp_path, lambda archive: archive.writestr(info, "/etc/passwd"))
    with pytest.raises(ArchiveRefused, match=r"'users.json' is a link or a special file"):
        open_archive(path)


@pytest.mark.parametrize("other", ["./users.json", ".//users.json", "users.json/"])
def test_two_paths_of_one_file_are_refused(tmp_path: Path, other: str) -> None:
    path = write_zip({"users.json": b"[]", other: b""}, tmp_path / "x.zip")
    with pytest.raises(ArchiveRefused, match=r"'users.json' is there twice"):
        open_archive(path)


def test_two_files_whose_names_are_the_same_when_decoded_are_refused(tmp_path: Path) -> None:
    def write(archive: zipfile.ZipFile) -> None:
        archive.writestr("café/1.json", "[]")
        with pytest.warns(UserWarning, match=r"Duplicate name"):
            archive.writestr("café/1.json", "[1]")

    path = clear_utf8_flags(made(tmp_path, write), 0)
    with zipfile.ZipFile(path) as archive:
        assert len(set(archive.namelist())) == 2
    with pytest.raises(ArchiveRefused, match=r"'café/1.json' is there twice"):
        open_archive(path)


def test_a_name_without_the_flag_is_utf8_where_it_decodes_as_such_else_cp437(
    tmp_path: Path,
) -> None:
    files = {"café/1.json": b"[1]", "日本/1.json": b"[2]", "Zürich/1.json": b"[3]"}
    path = clear_utf8_flags(write_zip(files, tmp_path / "x.zip"))
    # of the same length, so that no offset changes; 0x81 is ü in cp437 and begins nothing in UTF-8
    path.write_bytes(path.read_bytes().replace("Zü".encode(), b"Z\x81\x81"))
    with closing(open_archive(path)) as archive:
        assert {name: archive.read(name) for name in archive.names} == {
            "café/1.json": b"[1]",
            "日本/1.json": b"[2]",
            "Züürich/1.json": b"[3]",
        }
    name = "café".encode().decode("cp437") + "/1.json"  # which has the flag
    with closing(open_archive(write_zip({name: b"[]"}, tmp_path / "y.zip"))) as archive:
        assert archive.names == [name]


def test_a_name_that_says_in_its_file_to_be_utf8_and_is_not_is_damage(tmp_path: Path) -> None:
    path = clear_utf8_flags(write_zip({"ü.json": b"[]"}, tmp_path / "x.zip"))
    data = bytearray(path.read_bytes().replace("ü".encode(), b"\x81\x81"))
    data[7] |= 8  # before the file, not in the directory
    path.write_bytes(data)
    with closing(open_archive(path)) as archive, pytest.raises(Unreadable, match=r"damaged: "):
        archive.read("üü.json")


def test_a_file_that_unpacks_to_far_more_than_it_is_packed_in_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path, lambda archive: archive.writestr("users.json", b"0" * 20 * MEGABYTE))
    with pytest.raises(
        ArchiveRefused, match=r"'users.json' unpacks .* more than 250 times as many"
    ):
        open_archive(path)


def test_a_file_is_not_unpacked_beyond_the_size_it_declares(tmp_path: Path) -> None:
    path = made(tmp_path, lambda archive: archive.writestr("users.json", b"0" * (64 * MEGABYTE)))
    data = bytearray(path.read_bytes())
    for at in (22, data.rindex(b"PK\x01\x02") + 24):  # in the header of the file, in the directory
        data[at : at + 4] = (100).to_bytes(4, "little")
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with closing(open_archive(path)) as archive, pytest.raises(Unreadable, match="damaged"):
            archive.read("users.json")
        assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_is_packed_as_no_export_is_cannot_be_read(tmp_path: Path, method: int) -> None:
    def write(archive: zipfile.ZipFile) -> None:
        archive.writestr("users.json", b"[]")
        archive.writestr("channels.json", b"[]", method)

    with closing(open_archive(made(tmp_path, write))) as archive:
        assert archive.read("users.json") == b"[]"
        with pytest.raises(Unreadable, match="packed as no export is"):
            archive.read("channels.json")


def test_many_files_that_share_their_packed_bytes_are_refused(tmp_path: Path) -> None:
    path = made(tmp_path, lambda archive: archive.writestr("00.json", os.urandom(MEGABYTE)))
    data = path.read_bytes()
    directory = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06", directory)
    entry = data[directory:end]
    # the same packed bytes under 300 names
    entries = b"".join(entry.replace(b"00.json", b"%03d.jso" % n) for n in range(300))
    tail = bytearray(data[end:])
    tail[8:10] = tail[10:12] = (300).to_bytes(2, "little")
    tail[12:16] = len(entries).to_bytes(4, "little")
    path.write_bytes(data[:directory] + entries + bytes(tail))
    with pytest.raises(ArchiveRefused, match=r"unpacks .* bytes to .*, more than 250 times"):
        open_archive(path)


def test_more_than_the_limit_in_all_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_zip({f"{n}.json": os.urandom(100) for n in range(5)}, tmp_path / "x.zip")
    monkeypatch.setattr(archives, "_MOST_BYTES", 499)
    with pytest.raises(ArchiveRefused, match=r"500 bytes when unpacked, the limit is 499"):
        open_archive(path)
    monkeypatch.setattr(archives, "_MOST_ENTRIES", 4)
    with pytest.raises(ArchiveRefused, match=r"5 entries, the limit is 4"):
        open_archive(path)


def test_an_encrypted_file_is_refused(tmp_path: Path) -> None:
    path = write_zip(FILES, tmp_path / "x.zip")
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ArchiveRefused, match=r"is encrypted"):
        open_archive(path)


@pytest.mark.parametrize("kept", [2, 100, -1])
def test_a_zip_that_was_cut_short_says_so(tmp_path: Path, kept: int) -> None:
    path = write_zip({"users.json": b"[]" * 500, "channels.json": b"[]"}, tmp_path / "x.zip")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(
        ArchiveRefused, match=r"x\.zip: a zip that is cut short or damaged; download it"
    ):
        open_archive(path)


@pytest.mark.parametrize("content", [b"", b"not a zip at all" * 100])
def test_what_is_neither_folder_nor_zip_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "export.zip"
    with pytest.raises(ArchiveRefused, match=r"No such file"):
        open_archive(path)
    path.write_bytes(content)
    with pytest.raises(ArchiveRefused, match=r"export\.zip: expected a folder or a zip"):
        open_archive(path)


@given(st.data())
def test_a_damaged_zip_is_refused_or_its_damage_is_met_when_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = write_zip(FILES, tmp_path_factory.mktemp("zip") / "x.zip")
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(1, len(content)))]))
    try:
        with closing(open_archive(path)) as archive:
            for name in archive.names:
                try:
                    archive.read(name)
                except Unreadable:
                    continue
    except ArchiveRefused:
        return


def test_links_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    outside = write_folder({"2024-03-03.json": b"[]"}, tmp_path / "outside")
    folder = write_folder(FILES, tmp_path / "export")
    (folder / "channels.json").symlink_to("/etc/passwd")
    (folder / "dev").symlink_to(outside)
    with closing(open_archive(folder)) as archive:
        assert archive.names == sorted(FILES)
        assert sorted(archive.ignored) == ["channels.json", "dev"]
        (folder / "users.json").unlink()
        (folder / "users.json").symlink_to("/etc/passwd")
        with pytest.raises(Unreadable):
            archive.read("users.json")


# ── when files were written ──────────────────────────────────────────────────────────────────────

AT = 1_710_111_600
"""2024-03-10 23:00 UTC; the entry says 2024-03-11 08:00, as in Tokyo."""


def field(kind: int, content: bytes) -> bytes:
    return struct.pack("<HH", kind, len(content)) + content


NTFS = field(
    0x000A, bytes(4) + struct.pack("<HHQQQ", 1, 24, (AT + 11_644_473_600) * 10_000_000, 0, 0)
)


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        pytest.param(field(0x5455, struct.pack("<Bi", 1, AT)), AT, id="Unix"),
        pytest.param(field(0x5455, struct.pack("<Bii", 3, AT, 1)), AT, id="Unix, with more times"),
        pytest.param(field(0x5855, struct.pack("<ii", 1, AT)), AT, id="old Unix"),
        pytest.param(NTFS, AT, id="Windows"),
        pytest.param(field(0x7875, b"abc") + NTFS, AT, id="after another field"),
        pytest.param(field(0x5455, struct.pack("<Bi", 2, AT)), AT + 9 * 3600, id="no such time"),
        pytest.param(field(0x5455, b"\x01ab"), AT + 9 * 3600, id="cut short"),
        pytest.param(b"", AT + 9 * 3600, id="no field"),
    ],
)
def test_the_time_of_a_file_is_the_one_in_utc_where_there_is_one(
    tmp_path: Path, extra: bytes, expected: int
) -> None:
    entry = zipfile.ZipInfo("users.json", (2024, 3, 11, 8, 0, 0))
    entry.extra = extra
    path = made(tmp_path, lambda archive: archive.writestr(entry, b"[]"))
    with closing(open_archive(path)) as archive:
        assert archive.written("users.json") == expected
