"""What each piece of a push costs, as a ratio to one ES256 verification in the same run.

``python -m bench.webpush_costs`` (about 5 s). A ratio of 0.10 is a tenth of a verification.
"""

import time
from collections.abc import Callable

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from autopush.api.push_metrics import PushMetrics
from autopush.delivery.router import DeliveryResult
from autopush.telemetry.metric_table import METRICS
from autopush.telemetry.metrics import unshared_metrics
from autopush.webpush import jwt
from autopush.webpush.endpoint_token import EndpointTokens
from autopush.webpush.headers import check_content
from autopush.webpush.identifiers import IdFactory, new_message_id, parse_message_id
from autopush.webpush.keyring import KeyRing, new_key
from autopush.webpush.node_payload import from_node
from autopush.webpush.notification import Notification
from autopush.webpush.syntax import encode_base64url
from autopush.webpush.vapid import Verifier, check_access, parse_credentials

ORIGIN = "https://push.example"
UAID = "deadbeef00000000deadbeef00000001"
CHID = "12345678-aaaa-bbbb-cccc-1234567890ab"
NOW = 1_700_000_000.0
ROUNDS = 5
SECONDS_PER_ROUND = 0.01

Piece = Callable[[], object]


def seconds(piece: Piece) -> float:
    """Seconds per call: the best of several rounds."""
    calls, spent = 1, 0.0
    while spent < SECONDS_PER_ROUND:
        calls *= 2
        spent = _timed(piece, calls)
    return min(_timed(piece, calls) for _ in range(ROUNDS)) / calls


def _timed(piece: Piece, calls: int) -> float:
    repeat = range(calls)
    start = time.perf_counter()
    for _ in repeat:
        piece()
    return time.perf_counter() - start


def pieces() -> tuple[Piece, list[tuple[str, Piece]]]:
    """The verification that is the measure, and everything that is held against it."""
    private = ec.generate_private_key(ec.SECP256R1())
    point = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    signed = ".".join(
        encode_base64url(text)
        for text in (
            b'{"typ":"JWT","alg":"ES256"}',
            b'{"aud":"https://push.example","exp":1700003600,"sub":"mailto:ops@a.example"}',
        )
    )
    r, s = decode_dss_signature(private.sign(signed.encode(), ec.ECDSA(SHA256())))
    raw_signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    text = f"{signed}.{encode_base64url(raw_signature)}"
    authorization = f"vapid t={text},k={encode_base64url(point)}"

    key, token = jwt.load_key(point), jwt.parse(text)
    verifier = Verifier(ORIGIN)
    credentials = parse_credentials(authorization, {})
    claims = verifier.verify(credentials)
    verifier.remember(credentials, claims)

    key_text = new_key()
    ring, fernet, ids = KeyRing([key_text]), Fernet(key_text), IdFactory(time.time)
    plain = f"02:{UAID}:{CHID.replace('-', '')}:{ids.next()}".encode()
    secret = ring.encrypt(plain)
    tokens = EndpointTokens(ring, ORIGIN)
    endpoint_token = tokens.url(UAID, CHID, point).rpartition("/")[2]
    endpoint = tokens.open(endpoint_token)

    headers = {"ttl": "60", "content-encoding": "aes128gcm", "host": "push.example"}
    legacy = {
        "ttl": "60",
        "content-encoding": "aesgcm",
        "encryption": 'salt="XZwpw6o37R-6qoZjw6KwAw=="',
        "crypto-key": 'dh="BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7"',
    }
    body = bytes(range(256)) * 2
    notification = Notification(
        uaid=UAID,
        channel_id=CHID,
        version=secret,
        ttl=60,
        timestamp=int(NOW),
        data=encode_base64url(body),
        headers={"encoding": "aes128gcm"},
    )
    to_node = notification.to_node()

    def access() -> None:
        found = verifier.credentials(authorization, None)
        check_access(tokens.open(endpoint_token), "v2", found)

    content = check_content(headers, body)
    metrics = PushMetrics(unshared_metrics(METRICS))

    def counted() -> None:
        began = metrics.received()
        metrics.accepted(
            began, "webpush", DeliveryResult.DELIVERED, len(body), content.headers, credentials
        )

    pushed: list[tuple[str, Piece]] = [
        ("token opened, sender known, access checked", access),
        ("check a known sender", lambda: verifier.check(claims, NOW)),
        ("headers and body, aes128gcm, 512 bytes", lambda: check_content(headers, body)),
        ("new message id", lambda: new_message_id(ring, UAID, CHID, None, ids.next())),
        ("notification to client", notification.to_client),
        ("counted", counted),
    ]

    def push() -> None:
        for _, piece in pushed:
            piece()

    return lambda: jwt.verify(token, key), [
        ("a sender met first, whole", lambda: verifier.verify(credentials)),
        ("  Authorization parsed", lambda: parse_credentials(authorization, {})),
        ("  JWT parsed", lambda: jwt.parse(text)),
        ("  key loaded", lambda: jwt.load_key(point)),
        ("a sender met before, found", lambda: verifier.credentials(authorization, None)),
        ("endpoint token opened, cached", lambda: tokens.open(endpoint_token)),
        ("access checked", lambda: check_access(endpoint, "v2", credentials)),
        ("endpoint URL made", lambda: tokens.url(UAID, CHID, point)),
        ("encrypt, ring", lambda: ring.encrypt(plain)),
        ("encrypt, cryptography.fernet", lambda: fernet.encrypt(plain)),
        ("decrypt, ring", lambda: ring.decrypt(secret)),
        ("decrypt, cryptography.fernet", lambda: fernet.decrypt(secret)),
        ("message id parsed", lambda: parse_message_id(ring, secret)),
        ("headers and body, aesgcm, 512 bytes", lambda: check_content(legacy, body)),
        ("notification to node", notification.to_node),
        ("notification from node", lambda: from_node(UAID, to_node)),
        *pushed,
        ("these last six: one push, all known", push),
    ]


def main() -> None:
    measure, others = pieces()
    unit = seconds(measure)
    print("piece                                     ratio  (1 = one ES256 verification)")
    for name, piece in others:
        cost = seconds(piece)
        print(f"{name:40} {cost / unit:6.3f}  {cost * 1e6:8.2f} µs")
    print(f"{'one ES256 verification':40} {1:6.3f}  {unit * 1e6:8.2f} µs")


if __name__ == "__main__":
    main()
