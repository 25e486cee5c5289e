"""Settings and where they come from."""

from pathlib import Path

import msgspec
import pytest

from channelstats.counting import Profile
from channelstats.settings import TABLE, SettingError, Settings, load


def test_every_setting_of_the_table_is_a_field() -> None:
    assert tuple(setting.name for setting in TABLE) == Settings.__struct_fields__


def test_without_anything_given_the_defaults_hold(tmp_path: Path) -> None:
    found = load({"data": str(tmp_path)}, {})
    expected = {setting.name: setting.default for setting in TABLE} | {"data": str(tmp_path)}
    assert msgspec.structs.asdict(found) == expected
    assert found.counting.profile is Profile.MODERN
    assert found.file == tmp_path / "channelstats.sqlite"


def test_a_flag_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "channelstats.toml").write_text(
        'profile = "compat"\nprefix = "file"\nslack_name = "file"\nmin_group = 3\n'
        "include_bots = true\n"
    )
    environment = {"CHANNELSTATS_PREFIX": "environment", "CHANNELSTATS_SLACK_NAME": "environment"}
    found = load({"data": str(tmp_path), "slack_name": "flag"}, environment)
    assert (found.slack_name, found.prefix, found.profile) == ("flag", "environment", "compat")
    assert (found.min_group, found.include_bots) == (3, True)


def test_the_data_folder_can_come_from_the_environment(tmp_path: Path) -> None:
    assert load({}, {"CHANNELSTATS_DATA": str(tmp_path)}).folder == tmp_path


def test_another_file_can_be_named(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text('prefix = "other"')
    assert load({"config": str(file)}, {}).prefix == "other"
    assert load({}, {"CHANNELSTATS_CONFIG": str(file)}).prefix == "other"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('profil = "compat"', "there is no setting 'profil'; did you mean profile?"),
        ("prefix = 1.5", "prefix: expected a text, a number, true or false"),
        ("prefix =", "Invalid"),
        ('report_timezone = "Mars"', "report_timezone in .*: expected the name of a time zone"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "channelstats.toml").write_text(text)
    with pytest.raises(SettingError, match=message):
        load({"data": str(tmp_path)}, {})
