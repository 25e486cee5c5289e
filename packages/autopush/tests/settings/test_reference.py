"""The sample files and the reference table."""

import re

import pytest

from autopush.settings import OPTIONS, Option, Settings
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


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_has_a_row_with_its_flag_and_variables(option: Option) -> None:
    [row] = [
        line
        for line in REFERENCE.splitlines()
        if line.startswith(f"| [**`{option.name}`**]{{#{option_anchor(option.name)}}}<br>")
    ]
    assert option.flag in row
    assert all(f"`{variable}`" in row for variable in option.env)
    assert row.replace(r"\|", "").count("|") == 4


def test_every_option_is_in_one_sample_file_and_port_in_those_of_both_daemons() -> None:
    for option in OPTIONS:
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


@pytest.mark.parametrize(("file", "line"), OPTION_LINES)
def test_a_line_of_a_sample_file_without_its_comment_sign_states_the_default(
    sources: SettingSources, file: IniFile, line: str
) -> None:
    sources.write("weak", SAMPLES[file].replace(f"\n#{line}\n", f"\n{line}\n"), file)
    assert f"\n{line}\n" in (sources.folder / "weak" / file.file_name).read_text()
    assert sources.load() == defaults(sources)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_line_of_the_toml_sample_without_its_comment_sign_states_the_default(
    sources: SettingSources, option: Option
) -> None:
    text, changed = re.subn(rf"(?m)^#{option.name} = ", f"{option.name} = ", TOML_SAMPLE)
    assert changed == 1
    sources.write_toml("weak", text)
    assert sources.load() == defaults(sources)


def test_the_whole_toml_sample_without_comment_signs_states_the_defaults(
    sources: SettingSources,
) -> None:
    sources.write_toml("weak", re.sub(r"(?m)^#(?=[a-z])", "", TOML_SAMPLE))
    loaded = sources.load()
    assert loaded == defaults(sources)
    given = {option.name for option in OPTIONS if not option.default_text}
    assert loaded.settings.sources.keys() >= given
