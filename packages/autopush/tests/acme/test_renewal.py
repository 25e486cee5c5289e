"""When a certificate is ordered, and when a failed order is tried again."""

import pytest

from autopush.acme.renewal import (
    MIN_PAUSE,
    RETRIES,
    CertificateFacts,
    Failure,
    WantedCertificate,
    at_start,
    failed,
    reason_to_order,
    wanted_key,
)
from support.cases import cases

DAY = 86_400.0
WANTED = WantedCertificate(("a.example", "b.example"), "https://directory.example/")
LIFE = 90 * DAY


def certificate(*names: str, serial: int = 0, is_placeholder: bool = False) -> CertificateFacts:
    names = names or WANTED.names
    return CertificateFacts(frozenset(names), 0.0, LIFE, serial, is_placeholder)


def test_it_is_renewed_when_a_third_of_its_life_is_left_or_a_little_before() -> None:
    times = [certificate(serial=serial).renew_at() / DAY for serial in range(1000)]
    assert max(times) == 60
    assert 58 < min(times) < 59
    assert len(set(times)) == 1000


@pytest.mark.parametrize(
    ("suggested", "renewed"), [(10 * DAY, 10 * DAY), (70 * DAY, 70 * DAY), (200 * DAY, 81 * DAY)]
)
def test_the_directory_decides_when_but_not_the_last_tenth(
    suggested: float, renewed: float
) -> None:
    assert certificate().renew_at(suggested) == renewed


@cases(
    ("present", "issued_by", "suggested", "day", "reason"),
    [
        (None, "", None, 1, "there is none"),
        (certificate(is_placeholder=True), "", None, 1, "there is none"),
        (certificate(), WANTED.directory, None, 50, ""),
        (certificate(), WANTED.directory, None, 61, "is to be renewed"),
        (certificate(), WANTED.directory, 20 * DAY, 21, "is to be renewed"),
        (certificate("a.example"), WANTED.directory, None, 1, "is not for b.example"),
        (certificate(*WANTED.names, "c.example"), WANTED.directory, None, 1, ""),
        (certificate(), "https://another.example/", None, 1, "is from another directory"),
    ],
)
def test_there_is_a_reason_to_order(
    present: CertificateFacts | None,
    issued_by: str,
    suggested: float | None,
    day: float,
    reason: str,
) -> None:
    found = reason_to_order(WANTED, present, issued_by, suggested, day * DAY)
    assert reason in found
    assert bool(reason) == bool(found)


def failures(count: int, retry_after: float | None = None) -> Failure:
    failure = None
    for _ in range(count):
        failure = failed(failure, "no", 1000.0, wanted_key(WANTED), retry_after)
    assert failure is not None
    return failure


def test_pauses_grow_to_some_hours_and_five_attempts_take_an_hour_nearly() -> None:
    pauses = [failures(count).retry_at - 1000.0 for count in range(1, 20)]
    assert 0.8 * RETRIES.first <= pauses[0] <= RETRIES.first
    assert sum(pauses[:5]) > 2900
    assert max(pauses) <= RETRIES.longest


def test_a_rate_limit_is_waited_for() -> None:
    assert failures(1, 86_400.0).retry_at == 87_400.0
    assert at_start(failures(1, 86_400.0)) == failures(1, 86_400.0)


def test_a_start_tries_again_soon_and_other_settings_begin_anew() -> None:
    started = at_start(failures(10))
    assert started is not None
    assert started.retry_at == 1000.0 + MIN_PAUSE
    other = WantedCertificate(WANTED.names, WANTED.directory, eab_kid="1", eab_key="changed")
    assert failed(failures(10), "no", 2000.0, wanted_key(other)).count == 1
    assert "changed" not in repr(other)
