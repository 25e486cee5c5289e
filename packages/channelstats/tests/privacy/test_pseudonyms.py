"""Pseudonyms."""

import pytest

from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.privacy.pseudonyms import SHORTEST_SECRET, Pseudonyms

SECRET, OTHER = b"0123456789abcdef", b"0123456789abcdeg"


def test_a_pseudonym_is_the_same_in_every_run_and_another_under_another_secret() -> None:
    one, again, other = Pseudonyms(SECRET), Pseudonyms(SECRET), Pseudonyms(OTHER)
    for name in (Pseudonyms.identifier, Pseudonyms.person, Pseudonyms.channel):
        assert name(one, "UALICE") == name(again, "UALICE") != name(other, "UALICE")
        assert name(one, "UALICE") != name(one, "UBOB")


def test_a_pseudonym_looks_like_what_it_stands_for() -> None:
    names = Pseudonyms(SECRET)
    assert is_user_id(names.identifier("UALICE"))
    assert is_channel_id(names.identifier("CGEN"))


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match=f"at least {SHORTEST_SECRET} bytes"):
        Pseudonyms(b"short")


@pytest.mark.parametrize("emoji", ["alice-dance", "ames", "partyalice", "bob_wave", "ohara-wave"])
def test_an_emoji_with_a_name_in_it_is_replaced(emoji: str) -> None:
    found = Pseudonyms(SECRET, ["Alice Ames", "bob", "Eve O'Hara"]).emoji(emoji)
    assert found.startswith("custom-")


@pytest.mark.parametrize("emoji", ["tada", "+1::skin-tone-2", "bobsled"])
def test_other_emoji_stay(emoji: str) -> None:
    assert Pseudonyms(SECRET, ["Alice Ames", "bob"]).emoji(emoji) == emoji
