"""The client of a directory (RFC 8555), by the library `acme`. Every method blocks, for as long as
its timeouts allow.

Rule: every failure is an `OrderFailed`, in words.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from acme import challenges, client, crypto_util, errors, messages
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from josepy.errors import Error as JoseError
from josepy.jwa import ES256
from josepy.jwk import JWKEC

from autopush.acme import failures
from autopush.acme.failures import OrderFailed
from autopush.acme.files import AcmeAccount, PlacedOrder, facts_of, new_key
from autopush.acme.renewal import WantedCertificate, listed
from autopush.version import VERSION

REQUEST_TIMEOUT: Final = 30
"""Seconds until the directory must answer."""
VALIDATION_TIMEOUT: Final = 180.0
"""Seconds that it may take to validate the names, and as many to issue the certificate."""
_GONE: Final = frozenset({"malformed", "unauthorized"})
"""Problems of an order that is not there any more, besides the status 404."""


class Directory:
    """One session with the directory. `clock`: seconds since the epoch.

    :raises OrderFailed: it cannot be reached, or is none
    """

    def __init__(self, wanted: WantedCertificate, clock: Callable[[], float] = time.time) -> None:
        self._wanted, self._clock = wanted, clock
        self._host = urlsplit(wanted.directory).netloc
        self._retry_after: float | None = None
        self._clock_error = 0.0
        self._key: JWKEC | None = None
        self._net = client.ClientNetwork(
            alg=ES256, user_agent=f"autopush/{VERSION}", timeout=REQUEST_TIMEOUT
        )
        self._net.verify_ssl = wanted.ca or True  # type: ignore[assignment]  # as requests takes it
        self._net.session.hooks["response"].append(self._note)
        with self._explained():
            directory = client.ClientV2.get_directory(wanted.directory, self._net)
            self._client = client.ClientV2(directory, self._net)
            self._client.directory["newOrder"]

    @property
    def terms(self) -> str:
        """The URL of its terms of service, empty if it has none."""
        return getattr(self._client.directory.meta, "terms_of_service", None) or ""

    def sign_in(self, known: AcmeAccount | None) -> AcmeAccount:
        """Use the known account, or make one, which agrees to the terms."""
        wanted = self._wanted
        pem = known.key if known else new_key()
        private = load_pem_private_key(pem.encode(), None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        self._key = self._net.key = JWKEC(key=private)
        contact: dict[str, Any] = {"email": wanted.email} if wanted.email else {}
        with self._explained():
            if known is not None:
                body = messages.Registration.from_data(**contact)
                account = messages.RegistrationResource(uri=known.uri, body=body)
                self._net.account = account
                if known.email != wanted.email:
                    self._client.update_registration(account)
                return AcmeAccount(pem, known.uri, wanted.email)
            binding = None
            if wanted.eab_kid and wanted.eab_key:
                binding = messages.ExternalAccountBinding.from_data(
                    self._key.public_key(), wanted.eab_kid, wanted.eab_key, self._client.directory
                )
            new = messages.NewRegistration.from_data(
                terms_of_service_agreed=True, external_account_binding=binding, **contact
            )
            return AcmeAccount(pem, self._client.new_account(new).uri, wanted.email)

    def place(self) -> PlacedOrder:
        """Order a certificate with a new key."""
        wanted, key = self._wanted, new_key()
        with self._explained():
            order = self._client.new_order(_request(key, wanted.names))
            return PlacedOrder(wanted.directory, wanted.names, order.uri, key)

    def answers(self, placed: PlacedOrder) -> dict[str, str]:
        """By token, what has to be answered to the directory's challenges."""
        with self._explained(is_order=True):
            return {
                challenge.encode("token"): challenge.validation(self._key)
                for _, challenge in self._pending(self._order(placed))
            }

    def complete(self, placed: PlacedOrder) -> str:
        """Have the names validated, and the certificate issued: key and chain, PEM."""
        with self._explained(is_order=True):
            order = self._order(placed)
            for body, challenge in self._pending(order):
                if body.status == messages.STATUS_PENDING:
                    self._client.answer_challenge(body, challenge.response(self._key))
            order = self._client.poll_authorizations(order, _deadline())
            chain = self._client.finalize_order(order, _deadline()).fullchain_pem
        pem = placed.key + chain
        facts = facts_of(pem)
        if facts is None or not facts.names >= set(placed.names):
            raise OrderFailed(f"{self._host} has issued another certificate", is_order_gone=True)
        return pem

    def suggested_renewal(self, pem: str) -> tuple[float | None, float]:
        """When to renew a certificate (RFC 9773), if the directory says so, and in how many seconds
        to ask again.
        """
        chain = "-----BEGIN CERTIFICATE" + pem.partition("-----BEGIN CERTIFICATE")[2]
        with self._explained():
            at, again = self._client.renewal_time(chain.encode())
        pause = (again - datetime.now(again.tzinfo)).total_seconds()
        return None if at is None else at.timestamp(), pause

    # ── orders ───────────────────────────────────────────────────────────────────────────────────

    def _order(self, placed: PlacedOrder) -> messages.OrderResource:
        body = messages.Order.from_json(self._read(placed.uri).json())
        if body.status == messages.STATUS_INVALID:
            words = str(body.error.detail if body.error else "") or "it is invalid"
            raise OrderFailed(f"the order has failed: {words}", is_order_gone=True)
        authorizations = [
            messages.AuthorizationResource(
                uri=uri, body=messages.Authorization.from_json(self._read(uri).json())
            )
            for uri in body.authorizations
        ]
        return messages.OrderResource(
            uri=placed.uri,
            body=body,
            authorizations=authorizations,
            csr_pem=_request(placed.key, placed.names),
        )

    def _read(self, uri: str) -> requests.Response:
        """By POST-as-GET."""
        return self._net.post(uri, None, new_nonce_url=self._client.directory["newNonce"])

    def _pending(
        self, order: messages.OrderResource
    ) -> Iterator[tuple[messages.ChallengeBody, challenges.HTTP01]]:
        for authorization in order.authorizations:
            if authorization.body.status != messages.STATUS_PENDING:
                continue
            for body in authorization.body.challenges:
                if isinstance(body.chall, challenges.HTTP01):
                    yield body, body.chall
                    break
            else:
                name = authorization.body.identifier.value
                raise OrderFailed(f"the directory validates {name} in other ways than HTTP-01")

    # ── failures ─────────────────────────────────────────────────────────────────────────────────

    def _note(self, response: requests.Response, *_: Any, **__: Any) -> None:
        """Keep of each response what no exception of the library has."""
        sent = _date(response.headers.get("Date", ""))
        if sent is not None:
            self._clock_error = self._clock() - sent
        self._retry_after = None
        if response.status_code in (429, 503) and (text := response.headers.get("Retry-After")):
            at = _date(text)
            if text.isascii() and text.isdigit():
                self._retry_after = float(text)
            elif at is not None:
                self._retry_after = max(0.0, at - self._clock())

    @contextmanager
    def _explained(self, *, is_order: bool = False) -> Iterator[None]:
        """Turn what fails into `OrderFailed`; `is_order`: what a placed order may meet."""
        try:
            yield
        except errors.ValidationError as error:
            raise OrderFailed(self._validation(error), is_order_gone=True) from None
        except errors.IssuanceError as error:
            raise OrderFailed(self._problem(error.error), is_order_gone=True) from None
        except messages.Error as error:
            raise OrderFailed(
                self._problem(error),
                self._retry_after,
                is_order_gone=is_order and error.code in _GONE,
                is_account_gone=error.code == "accountDoesNotExist",
            ) from None
        except errors.TimeoutError:
            raise OrderFailed(f"{self._host} did not validate or issue in time") from None
        except requests.exceptions.SSLError as error:
            reason = _ssl_reason(error)
            words = failures.of_untrusted(self._host, reason, has_ca=bool(self._wanted.ca))
            raise OrderFailed(words) from None
        except requests.exceptions.Timeout:
            words = f"{self._host} did not answer within {REQUEST_TIMEOUT} s"
            raise OrderFailed(words) from None
        except requests.exceptions.RequestException as error:
            raise OrderFailed(f"{self._host} cannot be reached ({_cause(error)})") from None
        except OSError:  # requests, of the file with the CA
            raise OrderFailed("acme_ca: the file cannot be read") from None
        except (errors.Error, JoseError, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, errors.ClientError) and self._retry_after is not None:
                raise OrderFailed(f"{self._host} is busy", self._retry_after) from None
            words = f"{self._wanted.directory} does not answer as a directory of ACME does"
            raise OrderFailed(f"{words} ({type(error).__name__})") from None

    def _validation(self, error: errors.ValidationError) -> str:
        problems = []
        for authorization in error.failed_authzrs:
            name = authorization.body.identifier.value
            for body in authorization.body.challenges:
                if body.error is not None:
                    problems.append(self._problem(body.error, name, is_validation=True))
                    break
        return "; ".join(problems)

    def _problem(
        self, error: messages.Error, name: str = "", *, is_validation: bool = False
    ) -> str:
        for each in (error, *(error.subproblems or ())):
            if each.identifier is not None:
                name = name or each.identifier.value
        if abs(self._clock_error) > failures.MAX_CLOCK_ERROR and not is_validation:
            return failures.of_clock(self._clock_error)
        return failures.of_problem(
            error.typ.rpartition(":")[2],
            error.detail or "",
            name or listed(self._wanted.names),
            is_validation=is_validation,
            has_eab=bool(self._wanted.eab_kid),
        )


def _request(key: str, names: tuple[str, ...]) -> bytes:
    return crypto_util.make_csr(key.encode(), domains=list(names))


def _deadline() -> datetime:
    return datetime.now() + timedelta(seconds=VALIDATION_TIMEOUT)  # noqa: DTZ005 - as the library


def _date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None


def _ssl_reason(error: requests.exceptions.SSLError) -> str:
    text = str(error)
    return text.partition("verify failed: ")[2].partition(" (_ssl")[0] or failures.shortened(text)


def _cause(error: BaseException) -> str:
    """The innermost reason, as the operating system gives it."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return getattr(error, "strerror", None) or type(error).__name__
