"""What there would be too much of over a long period is cut where its order says."""

import pytest

from channelstats.pages import network, todo
from support.channelstats.pages import look, random_workspace

SEEDS = (0,)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("most", [1, 2, 5, 20])
def test_of_many_interactions_the_strongest_are_listed(
    seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = random_workspace(seed, 60)
    every = look("network", data).rows("edges")
    ordered = sorted(every, key=lambda row: (-row["total"], row["from"], row["to"]))
    assert every == ordered
    monkeypatch.setattr(network, "MOST_LISTED", most)
    view = look("network", data)
    assert view.rows("edges") == ordered[:most]
    [edges] = [table for table in view.view.tables if table.name == "edges"]
    said = f"The strongest {most:,} of {len(every):,}." if most < len(every) else ""
    assert edges.about == said


@pytest.mark.parametrize("seed", SEEDS)
def test_of_many_unanswered_messages_the_newest_are_listed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = random_workspace(seed, 60)
    every = look("todo", data).rows("unanswered")
    assert len(every) > 2
    monkeypatch.setattr(todo, "MOST_UNANSWERED", 2)
    view = look("todo", data)
    assert view.rows("unanswered") == every[:2]
    [unanswered] = [table for table in view.view.tables if table.name == "unanswered"]
    assert f"the newest 2 of {len(every):,}" in unanswered.about
