"""Every report in every form."""

import io
import json
import re
from dataclasses import replace

import polars as pl
import pytest

from channelstats.render.names import Directory
from channelstats.render.reports import Form
from support.cases import cases
from support.channelstats.elements import Elements
from support.channelstats.weeks import Week

REPORTS = [("global", ""), ("brief", ""), ("channel", "CDEV"), ("user", "UALICE")]
EVERY = [(kind, subject, form) for kind, subject in REPORTS for form in Form]
WEEKS = ["W1", "W2", "silent", "after"]
NAMES = ("alice", "Alice Ames", "bob", "Bob Berg", "general", "dev")


def text_of(files: dict[str, bytes]) -> str:
    """Files as text, Parquet as what is in it."""
    return "\n".join(
        name
        + (str(pl.read_parquet(io.BytesIO(data)).rows()) if data[:4] == b"PAR1" else data.decode())
        for name, data in files.items()
    )


@pytest.mark.parametrize("name", ["W2", "silent"])
def test_the_document_made_twice_is_the_same(weeks: dict[str, Week], name: str) -> None:
    week = weeks[name]
    assert replace(week.data).document == week.data.document


@pytest.mark.parametrize("name", WEEKS)
@cases(("kind", "subject", "form"), EVERY)
def test_rendering_twice_is_the_same(
    weeks: dict[str, Week], name: str, kind: str, subject: str, form: str
) -> None:
    week = weeks[name]
    first = week.files(kind, form, subject)
    assert all(first.values())
    assert week.files(kind, form, subject) == first


def test_the_json_of_the_global_report_is_the_stored_document(w2: Week) -> None:
    made, stored = json.loads(w2.text("global", "json")), dict(w2.document)
    # That of the stored one tells what else it was made from.
    stored["input_fingerprint"] = stored["input_fingerprint"].rpartition("/")[0]
    assert made == stored
    assert list(made) == list(stored)


def test_the_json_of_a_user_holds_nobody_else_s_figures(w2: Week) -> None:
    document = json.loads(w2.text("user", "json", "UBOB"))
    assert set(document["user_stats"]) == set(document["users"]) == {"UBOB"}
    assert set(document["compared"]["users"]) == {"UBOB"}
    assert "channels" not in document


def test_small_groups_are_left_out_of_lists_and_stay_in_sums(w2: Week) -> None:
    files = w2.files("global", "csv", smallest_group=4)
    assert text_of(files).count("CDEV") == 0
    assert json.loads(w2.text("global", "json", smallest_group=4))["statistics"]["words"] == 40
    assert "Europe/Berlin" not in text_of(files)
    assert "CDEV" not in w2.text("global", "json", smallest_group=4)
    shown = w2.text("channel", "text", "CDEV", smallest_group=4)
    assert "fewer than 4 people posted in this channel" in shown
    assert "CDEV" in text_of(w2.files("global", "csv", smallest_group=3))


def test_csv_and_parquet_hold_the_same_tables(w2: Week) -> None:
    csv, parquet = w2.files("global", "csv"), w2.files("global", "parquet")
    assert [name.removesuffix(".csv") for name in csv] == [
        name.removesuffix(".parquet") for name in parquet
    ]
    for name, data in parquet.items():
        frame = pl.read_parquet(io.BytesIO(data))
        text = csv[name.replace(".parquet", ".csv")].decode("utf-8-sig").splitlines()
        assert {*frame.columns} - {"change"} <= {*text[0].split(",")}
        assert len(text) - 1 == frame.height
    channels = pl.read_parquet(io.BytesIO(parquet["channels.parquet"]))
    before = pl.col("change").struct.field("prev")
    assert channels.select("channel", "messages", "words", before).rows() == [
        ("CGEN", 5, 24, 3),
        ("CDEV", 3, 16, 2),
    ]


def test_a_name_that_is_a_formula_is_disarmed_in_csv(w2: Week) -> None:
    directory = Directory(people={"UBOB": "=cmd|'/c calc'!A1"})
    shown = text_of(w2.named(directory).files("global", "csv"))
    assert "'=cmd" in shown
    assert ",=cmd" not in shown


def test_a_name_cannot_steer_a_terminal(w2: Week) -> None:
    directory = Directory(people={"UBOB": "\x1b[2Jbob\u202e"})
    shown = w2.named(directory).text("global", "text")
    assert "\x1b" not in shown
    assert "@[2Jbob" in shown


@cases(("kind", "subject"), REPORTS)
def test_the_text_form_has_no_name_of_a_thing_that_is_not_known(
    weeks: dict[str, Week], kind: str, subject: str
) -> None:
    bare = weeks["W2"].named(Directory())
    assert "None" not in bare.text(kind, "text", subject)


@pytest.mark.parametrize("name", WEEKS)
@cases(("kind", "subject"), REPORTS)
def test_a_page_has_one_heading_and_every_table_a_caption(
    weeks: dict[str, Week], name: str, kind: str, subject: str
) -> None:
    outline = Elements(weeks[name].text(kind, "html", subject))
    assert outline.tags.count("h1") == 1
    assert outline.tags.count("table") == outline.tags.count("caption")
    assert {"script", "link", "img"}.isdisjoint(outline.tags)
    assert all(link.startswith(("#", "https://example.slack.com/")) for link in outline.links)


def test_a_name_is_never_markup_on_a_page(w2: Week) -> None:
    directory = Directory(people={"UBOB": "<script>x</script>"}, channels={"CGEN": "<b>\"'&"})
    page = w2.named(directory).text("global", "html")
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page


def test_a_change_on_the_page_has_an_arrow_and_no_colour(w2: Week) -> None:
    page = w2.text("global", "html")
    assert "▲" in page
    assert set(re.findall(r'class="(delta[^"]*)"', page)) == {"delta"}


def test_a_heat_map_of_the_page_says_what_its_colours_mean(w2: Week) -> None:
    page = w2.text("global", "html")
    _, _, heat = page.partition('<svg class="heat wide"')
    assert '<ul class="key" aria-label="Legend"><li>' in heat.partition("</figure>")[0]
