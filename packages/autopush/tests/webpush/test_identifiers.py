import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.webpush.identifiers import (
    canonical_uaid,
    canonical_uuid,
    dashed,
    is_channel_id,
    is_uaid,
    new_uaid,
    undashed,
)


@given(st.uuids())
def test_each_id_has_one_form(value: uuid.UUID) -> None:
    assert is_uaid(value.hex)
    assert is_channel_id(str(value))
    assert dashed(value.hex) == str(value)
    assert undashed(str(value)) == value.hex


@given(st.uuids())
def test_every_spelling_of_a_uuid_leads_to_the_one_form(value: uuid.UUID) -> None:
    for text in (str(value), value.hex, str(value).upper(), f"{{{value}}}", value.urn):
        assert canonical_uaid(text) == value.hex
        assert canonical_uuid(text) == str(value)


@given(st.one_of(st.none(), st.integers(), st.text(), st.lists(st.text()), st.binary()))
def test_whatever_else_a_client_sends_is_no_id(value: object) -> None:
    assert not is_uaid(value)
    assert not is_channel_id(value)
    assert canonical_uaid(value) is None
    assert canonical_uuid(value) is None


HEX = "deadbeef00000000deadbeef00000000"


@pytest.mark.parametrize(
    "text", [HEX.upper(), HEX[:-1], HEX + "0", HEX[:-1] + "g", dashed(HEX), " " + HEX[1:], "٣" * 32]
)
def test_a_uaid_in_another_form_is_refused(text: str) -> None:
    assert not is_uaid(text)


@pytest.mark.parametrize(
    "text",
    [
        HEX,
        dashed(HEX).upper(),
        dashed(HEX)[:-1],
        dashed(HEX)[:-1] + "-",
        "-" * 36,
        "deadbeef0-000-0000-dead-beef00000000",
    ],
)
def test_a_channel_id_in_another_form_is_refused(text: str) -> None:
    assert not is_channel_id(text)


def test_a_new_uaid_is_random_and_of_version_4() -> None:
    made = {new_uaid() for _ in range(50)}
    assert len(made) == 50
    assert all(is_uaid(uaid) and uuid.UUID(uaid).version == 4 for uaid in made)
