"""The key is made once, is its owner's alone, and signs for one push service at a time."""

import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from py_vapid import Vapid02

from channelstats.notifications.vapid import (
    DEFAULT_CONTACT,
    FILE,
    LIFETIME,
    contact_of,
    vapid_key,
)
from channelstats.settings import SettingError, load

NOW = 1_711_000_000.0


def claims(authorization: str) -> dict[str, Any]:
    payload = authorization.split("t=")[1].split(",", maxsplit=1)[0].split(".")[1]
    found = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert isinstance(found, dict)
    return found


def test_the_key_is_made_once_and_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    made = vapid_key(folder)
    assert vapid_key(folder).public == made.public
    assert (folder / FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == [FILE]
    assert len(base64.urlsafe_b64decode(made.public + "=")) == 65


async def test_of_several_makers_one_makes_the_key(tmp_path: Path) -> None:
    found = await asyncio.gather(*(asyncio.to_thread(vapid_key, tmp_path) for _ in range(8)))
    assert len({key.public for key in found}) == 1


def test_a_key_that_somebody_else_made_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_by_another(whole: Path, path: Path) -> None:
        monkeypatch.undo()
        public.append(vapid_key(path.parent).public)
        os.link(whole, path)

    public: list[str] = []
    monkeypatch.setattr(os, "link", made_by_another)
    assert [vapid_key(tmp_path).public] == public
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_signature_holds_for_the_origin_of_the_endpoint(tmp_path: Path) -> None:
    key = vapid_key(tmp_path)
    header = key.authorization("https://push.example:8443/p/abc", "mailto:a@b.example", NOW)
    assert claims(header) == {
        "aud": "https://push.example:8443",
        "exp": NOW + LIFETIME,
        "sub": "mailto:a@b.example",
    }
    assert header.endswith(f",k={key.public}")
    assert Vapid02.verify(header)


def test_the_contact_is_the_operators_else_one_that_push_services_take() -> None:
    page = "https://stats.example/contact"
    assert contact_of(load({"push_contact": page}, {})) == page
    assert contact_of(load({}, {})) == DEFAULT_CONTACT
    assert "localhost" not in DEFAULT_CONTACT


def test_a_page_can_be_the_contact(tmp_path: Path) -> None:
    header = vapid_key(tmp_path).authorization("https://p.example/1", "https://a.example/x", NOW)
    assert claims(header)["sub"] == "https://a.example/x"


def pem(private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes = b"") -> bytes:
    protection = BestAvailableEncryption(password) if password else NoEncryption()
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a key",
        b"\xff" * 20_000,
        pem(ec.generate_private_key(ec.SECP384R1())),
        pem(rsa.generate_private_key(65_537, 2048)),
        pem(ec.generate_private_key(ec.SECP256R1()), b"password"),
        pem(ec.generate_private_key(ec.SECP256R1()))[:100],
    ],
    ids=["empty", "text", "bytes", "other curve", "rsa", "password", "cut"],
)
def test_what_is_no_key_is_said_in_one_line_and_left_as_it_is(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(SettingError, match=r"vapid\.pem: expected a private key") as error:
        vapid_key(tmp_path)
    assert "\n" not in str(error.value)
    assert (tmp_path / FILE).read_bytes() == content
