"""The sample files and the reference table."""

import re

import pytest

from autopush.settings import OPTIONS, Settings
from autopush.settings.declaration import IniFile
from autopush.settings.reference import (
    option_anchor,
    render_reference,
    render_sample,
    render_toml_sample,
)
from autopush.settings.sources import Loaded
from support.setting_sources import SettingSources

REFERENCE = render_reference()
TOML_SAMPLE = render_toml_sample()
SAMPLES = {file: render_sample(file) for file in IniFile}
OPTION_LINES = [
    (file, line.removeprefix("#"))
    for file, text in SAMPLES.items()
    for line in text.splitlines()
    if line[:1] == "#" and line[1:2].isalpha()
]


def test_every_option_has_a_row_with_its_flag_and_variables() -> None:
    for option in OPTIONS:
        start = f"| [**`{option.name}`**]{{#{option_anchor(option.name)}}}<br>"
        [row] = [line for line in REFERENCE.splitlines() if line.startswith(start)]
        assert all(words in row for words in (option.flag, *(f"`{each}`" for each in option.env)))
        assert row.replace(r"\|", "").count("|") == 4, row


def test_every_option_is_in_one_sample_file_and_port_in_those_of_both_daemons() -> None:
    for option in OPTIONS:
        assert TOML_SAMPLE.count(f"\n#{option.name} = ") == 1
        files = {file for file, line in OPTION_LINES if line.startswith(f"{option.name} =")}
        both = {IniFile.CONNECTION, IniFile.ENDPOINT}
        assert files == (both if option.name == "port" else {option.file})


def defaults(sources: SettingSources) -> Loaded:
    return Loaded(Settings(data=sources.folder / "autopush"), ())


def test_sample_files_as_they_are_change_nothing(sources: SettingSources) -> None:
    for file, text in SAMPLES.items():
        sources.write("weak", text, file)
    sources.write_toml("weak", TOML_SAMPLE)
    assert sources.load() == defaults(sources)


@pytest.mark.parametrize("file", IniFile)
def test_the_lines_of_a_sample_file_without_comment_signs_state_the_defaults(
    sources: SettingSources, file: IniFile
) -> None:
    sources.write("weak", uncommented(SAMPLES[file]), file)
    given = {line.partition(" =")[0] for each, line in OPTION_LINES if each is file}
    assert_defaults_are_given(sources, given)


def test_the_lines_of_the_toml_sample_without_comment_signs_state_the_defaults(
    sources: SettingSources,
) -> None:
    sources.write_toml("weak", uncommented(TOML_SAMPLE))
    assert_defaults_are_given(sources, {option.name for option in OPTIONS})


def uncommented(sample: str) -> str:
    return re.sub(r"(?m)^#(?=[a-z])", "", sample)


def assert_defaults_are_given(sources: SettingSources, names: set[str]) -> None:
    loaded = sources.load()
    assert loaded == defaults(sources)
    computed = {option.name for option in OPTIONS if option.default_text}
    assert loaded.settings.sources.keys() >= names - computed
