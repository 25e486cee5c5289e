"""Settings and where they come from."""

from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path

import pytest

from channelstats.cli import make_parser as make_main_parser
from channelstats.commands import COMMANDS
from channelstats.commands.context import load_command, make_parser
from channelstats.counting import Counting
from channelstats.pages.goals import Bound
from channelstats.settings import OPTIONS, OptionGroup, SettingError, is_loopback, load, show_value
from channelstats.slack.rate_limits import AppKind


def test_without_anything_given_the_defaults_hold(tmp_path: Path) -> None:
    found = load({"data": str(tmp_path)}, {})
    shown = {option.name: show_value(getattr(found, option.name)) for option in OPTIONS}
    expected = {of.name: show_value(of.default) for of in OPTIONS} | {"data": str(tmp_path)}
    assert shown == expected
    assert found.counting == Counting()
    assert found.file == tmp_path / "channelstats.sqlite"


def test_a_flag_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "channelstats.toml").write_text(
        'week_start = "monday"\nprefix = "file"\nslack_name = "file"\nmin_group = 3\n'
        "include_bots = true\n"
    )
    environment = {"CHANNELSTATS_PREFIX": "environment", "CHANNELSTATS_SLACK_NAME": "environment"}
    found = load({"data": str(tmp_path), "slack_name": "flag"}, environment)
    assert (found.slack_name, found.prefix, found.week_start) == ("flag", "environment", "monday")
    assert (found.min_group, found.include_bots) == (3, True)


def test_another_file_can_be_named(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text('prefix = "other"')
    assert load({"config": str(file)}, {}).prefix == "other"
    assert load({}, {"CHANNELSTATS_CONFIG": str(file)}).prefix == "other"
    with pytest.raises(SettingError, match=r"none\.toml: there is no such file"):
        load({"config": str(tmp_path / "none.toml")}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('prefx = "x"', r"\.toml:1: unknown setting 'prefx'; did you mean 'prefix'\?$"),
        ("\n\nprefix =", r"\.toml:3: not TOML: invalid value$"),
        ("min_group = [1]", "min_group: expected a text, a number"),
        ("exclude_users = [1]", "exclude_users: expected an array of texts"),
        ("min_group = true", r"\.toml:1: min_group: expected a whole number"),
        ('backend = "dynamodb"', "unknown setting 'backend'; did you mean 'store'"),
        (
            'read_token = "xoxp-secret"',
            "unknown setting 'read_token'; did you mean 'read_token_file'",
        ),
        (
            'goals = ["threads.unanswerd <= 3"]',
            r"goals: there is no figure of that name; did you mean 'threads.unanswered'\?$",
        ),
        ('alerts = "people.posters"', "alerts: expected a figure and a bound, like 'threads"),
        ("port = 1\n# two\ncolour = 1", r"\.toml:3: unknown setting 'colour'$"),
        ("[push]\nport = 1", r"\.toml:1: unknown setting 'push'"),
        ("xoxp-1-secret = 1", r"\.toml:1: unknown setting$"),
        (
            'report_timezone = "Mars"',
            r"\.toml:1: report_timezone: expected the name of a time zone",
        ),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "channelstats.toml").write_text(text)
    with pytest.raises(SettingError, match=message):
        load({"data": str(tmp_path)}, {})


# ── what is understood ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("exclude_users", "@bob, Ann Ames ,U1,", {"bob", "Ann Ames", "U1"}),
        ("push_hosts", "Push.lan, 10.0.0.7", {"push.lan", "10.0.0.7"}),
        ("report_channel", "#stats", "stats"),
        ("optin_channel", "C012", "C012"),
        ("slack_api", "http://127.0.0.1:80/api", "http://127.0.0.1:80/api/"),
        ("slack_api", "https://slack.test/api/", "https://slack.test/api/"),
        ("app_kind", "unlisted", AppKind.UNLISTED),
        ("include_bots", "Yes", True),
        ("include_bots", "false", False),
        ("week_start", "Monday", "monday"),
        ("goals", "threads.first_reply < 2 h", (Bound("threads.first_reply", "<", 7200),)),
        (
            "alerts",
            "people.posters<10,volume.words > 1.5",
            (Bound("people.posters", "<", 10), Bound("volume.words", ">", 1.5)),
        ),
        ("goals", "", ()),
        ("retention_days", "30", 30),
    ],
)
def test_a_text_means_a_value(name: str, text: str, value: object) -> None:
    assert getattr(load({name: text}, {}), name) == value


def test_what_settings_come_to() -> None:
    flags = {"retention_days": "30", "out_dir": "x", "week_start": "monday"}
    subtypes = "reminder_add, channel_join,reminder_add"
    settings, defaults = load({**flags, "count_subtypes": subtypes}, {}), load({}, {})
    assert (settings.retention, settings.out, settings.first_weekday) == (
        timedelta(30),
        Path("x"),
        0,
    )
    assert (defaults.retention, defaults.out, defaults.first_weekday) == (None, None, 6)
    assert settings.counting.further == ("channel_join", "reminder_add")
    assert settings.options.counting == settings.counting


def test_a_list_may_be_an_array_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "channelstats.toml").write_text('exclude_channels = ["#random", "C012"]\n')
    assert load({}, {"CHANNELSTATS_DATA": str(tmp_path)}).exclude_channels == {"random", "C012"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("slack_api", "http://example.org/api/"),
        ("slack_api", "ftp://127.0.0.1/"),
        ("slack_api", "slack.com"),
        ("slack_name", "example.slack.com"),
        ("slack_name", "-"),
        ("report_channel", "#"),
        ("report_channel", "one,two"),
        ("count_subtypes", "Channel Join"),
        ("prefix", "a b"),
        ("retention_days", "-1"),
        ("refetch", "1.5"),
        ("concurrency", "0"),
        ("port", "65536"),
        ("week_start", "someday"),
        ("app_kind", "mine"),
        ("push_contact", "ann"),
        ("mail_server", "mail.example.org"),
        ("mail_server", "smtp://u:secret@h"),
        ("mail_server", "smtp://h:x"),
        ("mail_server", "smtp://h/x"),
        ("read_token_file", "xoxp-1-secret"),
        ("post_token_file", "xoxb-1-secret"),
        ("push_hosts", "push.lan:443"),
        ("min_group", "\u0663"),
    ],
)
def test_what_cannot_be_used_is_named_and_not_shown(name: str, text: str) -> None:
    flag = f"--{name.replace('_', '-')}"
    with pytest.raises(SettingError, match=f"^{flag}: expected ") as error:
        load({name: text}, {})
    assert not text or f" {text}" not in str(error.value)


@pytest.mark.parametrize("value", ["True", "true", "1", ""])
def test_the_local_store_of_the_original_is_asked_for_exactly(value: str) -> None:
    found = load({}, {"CHANNELSTATS_LOCALSTORAGE": value})
    local = "dynamodb://us-east-1?endpoint=http://localhost:8000"
    assert found.store == (local if value == "True" else "")
    other = load({"store": "sqlite:///x"}, {"CHANNELSTATS_LOCALSTORAGE": value})
    assert other.store == "sqlite:///x"


def test_where_a_setting_came_from_is_known(tmp_path: Path) -> None:
    (tmp_path / "channelstats.toml").write_text('week_start = "monday"\nmin_group = 2\n')
    flags = {"data": str(tmp_path), "min_group": "3"}
    assert load(flags, {"CHANNELSTATS_PORT": "1"}).places == {
        "data": "--data",
        "min_group": "--min-group",
        "port": "CHANNELSTATS_PORT",
        "week_start": f"{tmp_path / 'channelstats.toml'}:1",
    }


def test_addresses_of_this_machine_are_known() -> None:
    assert is_loopback("::1")
    assert is_loopback("localhost.")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("192.168.0.1")


# ── as flags ─────────────────────────────────────────────────────────────────────────────────────


def test_every_setting_has_a_help_and_a_default_that_it_understands() -> None:
    for option in OPTIONS:
        assert option.help, option.name
        assert len(option.help) <= 50, option.name
        default = option.value(str(option.default))
        assert show_value(default) == show_value(option.default), option.name


def parsers() -> dict[str, ArgumentParser]:
    return {command.name: make_parser(command) for command in COMMANDS}


def test_every_flag_of_every_command_has_a_help() -> None:
    silent = [
        (name, action.dest)
        for name, parser in {"": make_main_parser(), **parsers()}.items()
        for action in parser._actions
        if not action.help and action.dest != "command"
    ]
    assert silent == []


def test_every_command_that_posts_shows_the_token_for_it() -> None:
    every = parsers()
    for name in ("report", "send-weekly"):
        assert "--post-token-file FILE" in every[name].format_help()


def test_every_command_takes_every_setting_and_shows_those_that_matter() -> None:
    for command in COMMANDS:
        parser, groups = make_parser(command), load_command(command).groups
        shown = parser.format_help()
        taken = {flag for action in parser._actions for flag in action.option_strings}
        for option in OPTIONS:
            assert option.flag in taken
            if option.group is OptionGroup.GENERAL or option.group in groups:
                assert option.flag in shown
            else:
                assert f"  {option.flag} {option.value_type.metavar}" not in shown
