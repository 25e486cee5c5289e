"""A document as JSON text is the document."""

import copy
import json

import msgspec
import pytest

from channelstats.render.names import Directory
from channelstats.reports.anonymous import Pseudonyms, anonymous
from channelstats.reports.document import Changed, Document, whole
from channelstats.reports.render import Form, Kind, Wanted, render
from channelstats.reports.suppression import suppressed
from channelstats.reports.view import view
from channelstats.stats.values import Json
from support.channelstats.weeks import Week

TEXT = b'{"a": {"b": {"c": [1, {"d": 2}]}, "e": {}}, "f": null}'


def test_it_is_the_mapping_that_its_text_says() -> None:
    found = Document(TEXT)
    assert list(found) == ["a", "f"]
    assert found == json.loads(TEXT)
    assert found["a"] == {"b": {"c": [1, {"d": 2}]}, "e": {}}
    assert found != {"a": 1}
    assert whole(found) == whole(json.loads(TEXT))
    assert isinstance(whole(found), dict)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"1", b'{"a": {"b": [}}', b'{"a": 1', b'{"a": 1} 2', b"{'a': 1}"]
)
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        Document(text)


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize(
    ("kind", "subject"), [("global", ""), ("channel", "CGEN"), ("user", "UBOB")]
)
def test_reports_of_it_are_those_of_dictionaries(
    form: Form, kind: str, subject: str, weeks: dict[str, Week]
) -> None:
    document, wanted = whole(weeks["W2"].document), Wanted(Kind(kind), subject)
    text = Document(msgspec.json.encode(document))
    directory = weeks["W2"].directory
    assert render(wanted, text, directory, form) == render(wanted, document, directory, form)


def test_a_part_that_is_absent_is_an_error_where_it_is_read() -> None:
    nothing: dict[str, Json] = {}
    for seen in (view(nothing), view(Document(b"{}"))):
        with pytest.raises(KeyError, match="users"):
            _ = seen.users


def test_a_copy_is_the_same() -> None:
    assert copy.deepcopy(Document(TEXT)) == Document(TEXT)


def test_a_part_is_changed_when_it_is_asked_for() -> None:
    asked = []

    def change(name: str, value: Json) -> Json:
        asked.append(name)
        return [value]

    found = Changed({"one": 1, "two": 2}, {"ONE": "one", "TWO": "two"}, change)
    assert (list(found), len(found), "one" in found) == (["ONE", "TWO"], 2, False)
    assert asked == []
    assert found["TWO"] == [2]
    assert asked == ["two"]
    assert whole(found) == {"ONE": [1], "TWO": [2]}


def test_of_a_hidden_document_only_what_is_looked_at_is_read(weeks: dict[str, Week]) -> None:
    document = Document(msgspec.json.encode(whole(weeks["W2"].document)))
    names = Pseudonyms(b"a secret of the operator")
    hidden, directory = anonymous(suppressed(document, 2), Directory(), names)
    assert directory.people == {}
    assert len(view(hidden).user_stats) == 3
    assert directory.person(names.identifier("UBOB")) == names.person("UBOB")
    assert directory.channels == {}
