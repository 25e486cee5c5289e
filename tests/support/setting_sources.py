"""Settings loaded from ini files of a test's own, and from given flags and variables only."""

import argparse
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from autopush.settings import OPTIONS, StartupError
from autopush.settings.declaration import IniFile
from autopush.settings.sources import TOML_FILE, Loaded, add_flags, load


def _flag(name: str, text: str) -> str:
    [option] = [option for option in OPTIONS if option.name == name]
    if option.value_type.is_flag:
        return {"true": option.flag, "false": option.off_flag}[text]
    return f"{option.flag}={text}"


@functools.cache
def _parser(command: str, files: Sequence[IniFile]) -> argparse.ArgumentParser:
    """Of the flags of that command; making it takes ten times as long as parsing does."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser, command, files=files)
    return parser


class SettingSources:
    """Files in two search paths, of which `strong` is read after `weak`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, place: str, text: str, file: IniFile = IniFile.SHARED) -> Path:
        return self._write(place, text, file.file_name)

    def write_toml(self, place: str, text: str) -> Path:
        return self._write(place, text, TOML_FILE)

    def _write(self, place: str, text: str, file_name: str) -> Path:
        path = self.folder / place / file_name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def load(
        self,
        flags: Mapping[str, Sequence[str]] | None = None,
        environ: Mapping[str, str] | None = None,
        named: Mapping[IniFile, Path] | None = None,
        command: str = "serve",
        files: Sequence[IniFile] = tuple(IniFile),
        toml: Path | None = None,
    ) -> Loaded:
        """Load from these flags (option → texts), variables, and files named with a flag."""
        words = [_flag(name, text) for name, texts in (flags or {}).items() for text in texts]
        words += [f"--config-{file}={path}" for file, path in (named or {}).items()]
        words += [f"--config={toml}"] if toml else []
        return load(
            _parser(command, tuple(files)).parse_args(words),
            {"XDG_DATA_HOME": str(self.folder), **(environ or {})},
            command=command,
            files=files,
            search_paths=(f"{self.folder}/weak/{{}}", f"{self.folder}/strong/{{}}"),
            system_file=f"{self.folder}/autopush.ini",
        )

    def refusal(
        self,
        flags: Mapping[str, Sequence[str]] | None = None,
        environ: Mapping[str, str] | None = None,
        command: str = "serve",
    ) -> str:
        """The message of the StartupError, which chains nothing that could show a secret."""
        with pytest.raises(StartupError) as caught:
            self.load(flags, environ, command=command)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def read_or_refuse(self, path: Path) -> None:
        """Load; if a file is refused, it is this one, in one line."""
        refusal = f"{path}:"
        try:
            self.load()
        except StartupError as error:
            refusal = str(error)
        assert refusal.startswith(f"{path}:")
        assert len(refusal.splitlines()) == 1
