"""Pages that were written to a file and read again are the same."""

import inspect
from datetime import date
from itertools import product

import msgspec

from channelstats.metrics.table import Kind
from channelstats.pages import model, page_bytes
from channelstats.pages.model import VIEWS, Choice, Page, Section, Span, Text
from channelstats.pages.page_bytes import decoded, encoded
from channelstats.pages.views import unmarked_view_of
from channelstats.render.data import json_of
from channelstats.render.names import Directory
from support.cases import cases
from support.channelstats.pages import comparable, everything, random_workspace

NOBODY = Directory({}, {})


@cases(("seed", "name"), product(range(4), VIEWS))
def test_a_page_that_was_decoded_is_equal_to_the_one_that_was_encoded(seed: int, name: str) -> None:
    data = random_workspace(seed, 60)
    page = unmarked_view_of(name, data, everything(data), smallest_group=seed)
    again = decoded(encoded(page))
    assert comparable(again) == comparable(page)
    assert [of.rows.schema for of in again.tables] == [of.rows.schema for of in page.tables]
    assert json_of(again, NOBODY) == json_of(page, NOBODY)


def test_texts_with_values_in_them_are_kept_too() -> None:
    changed = {"cur": 3, "prev": 2.5, "diff_pct": 20.0, "state": "up"}
    spans = (
        Span(changed, Kind.COUNT, "message"),  # type: ignore[arg-type]
        Span({"message": "C1/1/", "text": "there"}, Kind.MESSAGE),
        Span(None, Kind.PERSON, notify=False),
    )
    day = date(2024, 3, 10)
    page = Page("x", ("a ", spans[0]), Choice(day, day), (day, day))
    page = msgspec.structs.replace(page, sections=(Section("s", (Text((("b", *spans),)),)),))
    assert decoded(encoded(page)) == page


def test_every_type_that_a_page_is_made_of_can_be_kept() -> None:
    found = {
        name
        for name, of in inspect.getmembers(model, inspect.isclass)
        if issubclass(of, msgspec.Struct) and of.__module__ == model.__name__
    }
    assert found <= page_bytes._MADE_BY.keys()
