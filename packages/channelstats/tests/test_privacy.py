"""Pseudonyms, and inputs under them: nothing real is left, and every figure stays."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.privacy import SHORTEST_SECRET, Pseudonyms, hidden_inputs
from channelstats.stats import report
from channelstats.views.loading import DashboardData
from support.channelstats.house import decoded
from support.channelstats.views import random_workspace
from support.soak import slow_after

GIVEN_NAMES = (Path(__file__).parent / "given_names.txt").read_text().split()

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


def test_no_pseudonym_has_a_given_name_in_it() -> None:
    names = Pseudonyms(SECRET)
    shown = [
        *(names.person(f"U{number}").lower().split()[:2] for number in range(5000)),
        *(names.channel(f"C{number}").split("-")[:2] for number in range(5000)),
    ]
    words = {word for pair in shown for word in pair}
    assert len(words) > 150  # as many as there are
    assert words & set(GIVEN_NAMES) == set()


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


# ── inputs ───────────────────────────────────────────────────────────────────────────────────────

PSEUDONYMS = Pseudonyms(b"a secret of the operator")
SEEDS = slow_after(1, range(3))


BY_RANK = {"cum_percent_of_words", "cpercent"}
"""What changes of those who are equal depends on their order."""


def numbers(part: Any) -> list[float]:
    if isinstance(part, dict):
        kept = [
            value
            for name, value in part.items()
            if name not in BY_RANK or not isinstance(value, dict)
        ]
        return [number for value in kept for number in numbers(value)]
    if isinstance(part, list):
        return [number for value in part for number in numbers(value)]
    return [part] if isinstance(part, int | float) else []


@pytest.mark.parametrize("seed", SEEDS)
def test_every_figure_of_the_report_stays(seed: int) -> None:
    of = random_workspace(seed, 60)
    hidden = hidden_inputs(of.inputs, PSEUDONYMS).inputs
    real, shown = (
        decoded(report(inputs, of.period, of.options, generated_at=0))
        for inputs in (of.inputs, hidden)
    )
    assert list(real) == list(shown)
    for name, part in real.items():
        # Equals are in the order of the IDs that are shown.
        assert sorted(numbers(shown[name])) == sorted(numbers(part)), name


@pytest.mark.parametrize("seed", SEEDS)
def test_no_real_id_is_left(seed: int) -> None:
    of = random_workspace(seed, 60)
    messages = of.inputs.messages
    real = {*messages["slack_uid"].drop_nulls(), *messages["slack_cid"], *of.inputs.users}
    real |= {uid for uids in messages["mentions"].drop_nulls() for uid in uids}
    for reactions in messages["reactions"].drop_nulls():
        real |= {reaction["reactor"] for reaction in reactions}
    found = hidden_inputs(of.inputs, PSEUDONYMS)
    shown = json.dumps(found.inputs.messages.rows(), default=str)
    shown += repr((found.inputs.users, found.inputs.channels, found.inputs.first_posts))
    shown += repr((found.people, found.channels))
    real -= {"USLACKBOT", ""}
    assert real
    assert not real & set(re.findall(r"[A-Z][A-Z0-9]+", shown))


def real(of: DashboardData) -> object:
    return decoded(report(of.inputs, of.period, of.options, generated_at=0))["input_fingerprint"]


def test_what_a_document_was_made_from_tells_nothing() -> None:
    of = random_workspace(3, 60)
    hidden = hidden_inputs(of.inputs, PSEUDONYMS).inputs
    made = decoded(report(hidden, of.period, of.options, generated_at=0))["input_fingerprint"]
    assert isinstance(made, str)
    assert re.fullmatch("[0-9a-f]+", made)
    assert made == PSEUDONYMS.mark_of(str(real(of)))


def test_the_times_of_listed_messages_are_those_of_their_days() -> None:
    of = random_workspace(3, 60)
    hidden = hidden_inputs(of.inputs, PSEUDONYMS).inputs
    document = decoded(report(hidden, of.period, of.options, generated_at=0))
    entries = [*document["reaction_count"], *document["reply_count"]]
    for each in document["enriched_user"].values():
        entries += [*each["reactions"], *each["replies"]]
    begins = {f"{day.begin:010d}.000000" for day in days_around(of.period)}
    assert entries
    for _, ts, _, _, thread_ts in entries:
        assert ts in begins
        assert thread_ts is None or thread_ts.endswith(".000000")


def days_around(period: Any) -> list[Any]:
    return [type(period)(day, 1, period.zone) for day in period.dates]
