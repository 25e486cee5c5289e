from autopush.webpush.secrets import check_registration_secret, registration_secret

KEY = "HJVPy4ZwF4Yz_JdvXTL8hRcwIhv742vC60Tg5Ycrvw8="
UAID = "729e5104f5f04abc9196085340317dea"
SECRET = "f694963453adf5dedcc379bbdd6900d692b6e09f1c91f44169bfcd2f941bf36c"


def test_the_secret_is_that_of_the_published_vector() -> None:
    assert registration_secret(KEY, UAID) == SECRET


def test_every_key_of_the_list_verifies() -> None:
    for keys in (["new", KEY], [KEY, "old"], [KEY]):
        assert check_registration_secret(keys, UAID, SECRET)


def test_another_secret_user_or_key_is_refused() -> None:
    assert not check_registration_secret([KEY], UAID, SECRET[:-1] + "d")
    assert not check_registration_secret([KEY], UAID, "")
    assert not check_registration_secret([KEY], UAID, "\udc80é")
    assert not check_registration_secret([KEY], UAID[::-1], SECRET)
    assert not check_registration_secret(["another"], UAID, SECRET)


def test_without_keys_nothing_is_let_in() -> None:
    assert not check_registration_secret([], UAID, SECRET)
    assert not check_registration_secret([], UAID, "")
