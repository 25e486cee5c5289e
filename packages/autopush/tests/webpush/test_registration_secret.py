"""The secret of a registration: how it is made, and which header is taken for it."""

import pytest

from autopush.webpush.errors import PushError
from autopush.webpush.tokens import RegistrationSecrets

KEY = "HJVPy4ZwF4Yz_JdvXTL8hRcwIhv742vC60Tg5Ycrvw8="
UAID = "729e5104f5f04abc9196085340317dea"
SECRET = "f694963453adf5dedcc379bbdd6900d692b6e09f1c91f44169bfcd2f941bf36c"


def test_the_secret_is_that_of_the_original_for_the_same_key_and_uaid() -> None:
    assert RegistrationSecrets([KEY]).secret(UAID) == SECRET


def test_the_first_key_signs_and_every_key_verifies() -> None:
    both = RegistrationSecrets(["new", KEY])
    assert both.secret(UAID) == RegistrationSecrets(["new"]).secret(UAID) != SECRET
    both.check(f"Bearer {SECRET}", UAID)
    both.check(f"Bearer {both.secret(UAID)}", UAID)


@pytest.mark.parametrize(
    ("authorization", "message"),
    [
        (None, "Unauthorized"),
        ("", "Unauthorized"),
        ("Bearer", "Invalid Authentication"),
        (SECRET, "Invalid Authentication"),
        (f"Basic {SECRET}", "Invalid Authentication"),
        (f"Bearer {SECRET[:-1]}", "Invalid Authentication"),
        (f"Bearer {SECRET.upper()}", "Invalid Authentication"),
        (f"Bearer {SECRET}\xe9", "Invalid Authentication"),
        (f"Bearer {SECRET} {SECRET}", "Invalid Authentication"),
    ],
)
def test_anything_else_is_401_109_and_is_not_repeated(
    authorization: str | None, message: str
) -> None:
    with pytest.raises(PushError) as caught:
        RegistrationSecrets([KEY]).check(authorization, UAID)
    refusal = caught.value
    assert (refusal.status, refusal.errno, refusal.message) == (401, 109, message)
    assert refusal.headers == (("WWW-Authenticate", "webpush"),)


def test_the_secret_of_one_uaid_is_not_that_of_another() -> None:
    with pytest.raises(PushError):
        RegistrationSecrets([KEY]).check(f"Bearer {SECRET}", UAID[::-1])


@pytest.mark.parametrize("keys", [[], [""], [KEY, ""]])
def test_a_list_without_a_key_is_refused(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="auth_key"):
        RegistrationSecrets(keys)
