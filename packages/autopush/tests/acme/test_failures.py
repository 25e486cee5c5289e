"""What a failure means, in words."""

import pytest

from autopush.acme.failures import MAX_DETAIL, of_problem, of_untrusted


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("dns", "push.example does not resolve: its DNS needs an A or AAAA record"),
        ("connection", "port 80 of push.example cannot be reached"),
        ("unauthorized", "another server answers for http://push.example/: its DNS points"),
        ("caa", "the DNS of push.example has a CAA record that forbids this directory"),
    ],
)
def test_a_validation_that_failed_names_the_host_and_the_remedy(problem: str, words: str) -> None:
    text = of_problem(problem, "line\nline " * 100, "push.example", is_validation=True)
    assert text.startswith(words)
    assert "\n" not in text
    assert len(text) < MAX_DETAIL + 250


def test_a_problem_of_the_account_is_not_taken_for_one_of_a_host() -> None:
    assert "another server" not in of_problem("unauthorized", "deactivated", "push.example")
    with_eab = of_problem("unauthorized", "", "push.example", has_eab=True)
    assert with_eab.endswith("check acme_eab_kid and acme_eab_key")


def test_a_certificate_of_the_directory_that_is_out_of_date_may_be_our_clock() -> None:
    for reason in ("certificate is not yet valid", "certificate has expired"):
        assert "the clock of this machine is wrong" in of_untrusted("acme", reason, has_ca=False)
    unknown = of_untrusted("acme", "self-signed certificate", has_ca=True)
    assert unknown.startswith("the certificate of acme is from an unknown CA: it is not in acme_ca")
